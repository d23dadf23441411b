"""`assay status`: how things stand."""

from __future__ import annotations

from typing import Annotated

import typer


def status(
    watch: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=0.2, help="Show it again every so often, until Ctrl-C."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print everything as one JSON object; with --watch one per line.")
    ] = False,
) -> None:
    """Show versions, vendor accounts, workers, parked work, recent calls, spend, sources, database."""
    from assay.cli import status_watch
    from assay.config import load_settings

    settings = load_settings()
    if watch is None:
        status_watch.show_once(settings, as_json=as_json)
    else:
        status_watch.watch(settings, watch, as_json=as_json)
