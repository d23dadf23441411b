"""`assay drill`: the morning that this product exists for, beside a script of the old kind."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def drill(
    tickets: Annotated[int, typer.Option(min=50, max=20_000, help="How many tickets come.")] = 1000,
    speed: Annotated[
        float, typer.Option(min=1, max=1000, help="How many times faster than the clock on the wall.")
    ] = 150.0,
    seed: Annotated[int, typer.Option(min=0, help="Other tickets, other mistakes and faults.")] = 1,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the project behind, to look at.")] = False,
    recount: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Count a kept drill again, from its files and tables; run none."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print both ledgers as one JSON object.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Replay a vendor's bad morning: to a labelling script of the old kind, and to assay, with the same
    messages.

    Everything is real and thrown away afterwards: broker, database, a practice vendor over HTTP, two workers,
    a publisher, a consumer. The vendor starts to put prose before its JSON, then makes confidence a string;
    then workers and script are killed and messages replay. At the end stand both ledgers: what was paid, and
    what went into training. Exit codes: 0 all promises of assay were kept, 1 some were not (each is named),
    2 bad settings, 130 interrupted; nothing is left behind either way.
    """
    from assay.cli.drill_command import DrillOptions, execute

    code = execute(
        DrillOptions(
            tickets=tickets, speed=speed, seed=seed, keep=keep, recount=recount, as_json=as_json, quiet=quiet
        )
    )
    if code:
        raise typer.Exit(code)
