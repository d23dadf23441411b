"""`assay status`: how things stand."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperCommand

# What `--watch` alone means.
_EVERY_SECONDS = "2"


class StatusCommand(TyperCommand):
    """Takes `--watch` without its number too, which the parser cannot express."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        completed = list(args)
        for place, word in enumerate(args):
            if word == "--watch" and (args[place + 1 :] or ["-"])[0].startswith("-"):
                completed[place] = f"--watch={_EVERY_SECONDS}"
        return super().parse_args(ctx, completed)


def status(
    watch: Annotated[
        float | None,
        typer.Option(
            metavar="[SECONDS]",
            min=0.2,
            help="Show it again every so many seconds (2 if no number follows), until Ctrl-C.",
        ),
    ] = None,
    every: Annotated[
        bool,
        typer.Option("--all", help="Also versions that were stopped before any record was settled."),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print everything as one JSON object; with --watch one per line.")
    ] = False,
) -> None:
    """Show versions, vendor accounts, workers, parked work, recent calls, spend, sources, database.

    A version that somebody stopped (`assay pipeline stop`) before it settled any record is left out, and
    counted: most likely a mistake. `--all` and `--json` have it.
    """
    from assay.cli import status_watch
    from assay.config import load_settings

    settings = load_settings()
    if watch is None:
        status_watch.show_once(settings, as_json=as_json, every=every)
    else:
        status_watch.watch(settings, watch, as_json=as_json, every=every)
