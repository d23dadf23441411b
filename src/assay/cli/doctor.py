"""`assay doctor`: what is in order, what is not, and what to do."""

from __future__ import annotations

from typing import Annotated

import typer


def doctor(
    pipeline: Annotated[
        str | None, typer.Argument(metavar="[PIPELINE]", help="FILE.py or FILE.py:name, to look at it too.")
    ] = None,
    base_url: Annotated[str | None, typer.Option(help="Where the model's API is, as in `assay run`.")] = None,
    model: Annotated[
        str | None, typer.Option(help="Another model than the file's, as in `assay run`.")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(min=1, max=20_000, help="Calls at once that a run will make.")
    ] = None,
    call: Annotated[
        bool, typer.Option("--call", help="Make one real call to the model; it may cost money.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as one JSON object.")] = False,
) -> None:
    """Check the installation, database, vault key, brokers and, with a pipeline, its model and vendor.

    Each line is ok, warn or fail, and says what to do. Exit code 1 where one fails.
    """
    from assay.cli.doctor_page import Options, examine
    from assay.domain.failures import ConfigurationError

    if model is not None and pipeline is None:
        raise ConfigurationError("--model changes the model of a file; give PIPELINE.py with it.")

    options = Options(pipeline, model, base_url, concurrency, call)
    if not examine(options, as_json):
        raise typer.Exit(1)
