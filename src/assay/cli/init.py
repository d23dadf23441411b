"""`assay init`: a project to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assay.starter import Example


def init(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to; it is made if need be.")] = Path(
        "."
    ),
    model: Annotated[
        str | None,
        typer.Option(
            metavar="VENDOR:NAME", help="openai:NAME or anthropic:NAME instead of recorded answers."
        ),
    ] = None,
    example: Annotated[
        Example,
        typer.Option(help="tickets to classify, or receipts and invoices to read values from."),
    ] = Example.TICKETS,
) -> None:
    """Write a small project that runs at once, without network or key: pipeline, prompt, 30 tickets.

    `--example receipts` writes one that extracts: nested lines, exact amounts, quotes, business rules.

    Nothing is overwritten: files that are there already are listed, and nothing is written then.
    """
    from assay.cli.init_page import start_project

    start_project(folder, model, example)
