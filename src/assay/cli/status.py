"""`assay status`: how things stand."""

from __future__ import annotations

from typing import Annotated

import typer


def status(
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as one JSON object.")] = False,
) -> None:
    """Show every pipeline version's states, dead letters, reviews, calls and cost; sources and database."""
    from assay.adapters.embedded.server import EmbeddedServer
    from assay.adapters.postgres.status_store import StatusStore
    from assay.cli.json_text import to_json
    from assay.cli.opened import NOTHING_YET, existing_database, is_new
    from assay.cli.status_page import as_object, show
    from assay.config import load_settings

    settings = load_settings()
    if is_new(settings):
        typer.echo(to_json(as_object(None, None)) if as_json else NOTHING_YET)
        return
    with existing_database(settings) as url:
        found = StatusStore(url).read()
    # Asked when this command uses it no more.
    server = None if settings.database_url else EmbeddedServer(settings.project).status()
    if as_json:
        typer.echo(to_json(as_object(found, server)))
    else:
        show(found, server)
