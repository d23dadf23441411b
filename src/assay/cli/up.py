"""`assay up`: database, broker, worker and publisher of a project, in the background."""

from __future__ import annotations

from typing import Annotated

import typer


def up(
    pipeline: Annotated[
        str | None, typer.Argument(metavar="PIPELINE", help="FILE.py or FILE.py:name.")
    ] = None,
    practice: Annotated[
        str | None,
        typer.Option(
            metavar="GOLD[#COLUMN]",
            help="Let the practice vendor answer, from these right answers; the model is practice-1 then.",
        ),
    ] = None,
    maps: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="FIELD=KEY", help="Take a field from a key, as in text=/ticket/body."),
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(min=1, max=20_000, help="Model calls at once; default 32 (recorded: 500).")
    ] = None,
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Stay, and show the logs; Ctrl-C ends all.")
    ] = False,
    status: Annotated[
        bool, typer.Option("--status", help="Show what is up, and end; 1 where something is not.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as one JSON object.")] = False,
) -> None:
    """Start the whole stream of a pipeline here: database, broker, one worker, one publisher.

    Records go into the topic `<name>.in`, events come out of `<name>.out`; `<name>.dlq` tells what was
    refused. All goes on in the background, and what dies is started again, until `assay down`. What is up
    already is left as it is.
    """
    from assay.cli.up_command import show_status, start
    from assay.cli.up_plan import UpOptions
    from assay.domain.failures import ConfigurationError

    if status:
        raise typer.Exit(show_status(as_json=as_json))
    if pipeline is None:
        raise ConfigurationError("Name the pipeline: assay up PIPELINE.py; `assay init` writes one.")
    code = start(
        UpOptions(pipeline, practice, tuple(maps or ()), concurrency), foreground=foreground, as_json=as_json
    )
    if code:
        raise typer.Exit(code)
