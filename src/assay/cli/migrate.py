"""`assay migrate`: bring the database's schema up to date."""

from __future__ import annotations

from typing import Annotated

import typer


def migrate(
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit code 1 when a migration is pending.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the list as one JSON object.")] = False,
) -> None:
    """Apply what the database lacks, and list what it has. Every command that needs it does so by itself."""
    from assay.cli.errors import BROKEN
    from assay.cli.migration_list import apply, look, show
    from assay.config import load_settings

    settings = load_settings()
    found = look(settings) if check else apply(settings)
    show(found, as_json=as_json)
    if check and found.pending:
        raise typer.Exit(BROKEN)
