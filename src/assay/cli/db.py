"""`assay db`: the database that commands use."""

from __future__ import annotations

from typing import Annotated

import typer

db_app = typer.Typer(help="The database: status, URL, restored, stop.", no_args_is_help=True)


@db_app.command("status")
def db_status(
    as_json: Annotated[bool, typer.Option("--json", help="Print it as one JSON object.")] = False,
) -> None:
    """Show which database is used, and whether it runs. Starts nothing."""
    from assay.adapters.embedded.server import EmbeddedServer
    from assay.adapters.postgres.status_store import StatusStore
    from assay.cli.database_url import masked
    from assay.cli.json_text import to_json
    from assay.cli.status_object import server_object
    from assay.cli.status_page import server_sentence
    from assay.config import load_settings

    settings = load_settings()
    if settings.database_url is not None:
        url, version = masked(settings.database_url), StatusStore(settings.database_url).server_version()
        typer.echo(
            to_json({"kind": "own", "url": url, "server_version": version})
            if as_json
            else f"ASSAY_DATABASE_URL: {url}, PostgreSQL {version}."
        )
        return
    server = EmbeddedServer(settings.project).status()
    if as_json:
        typer.echo(to_json({"kind": "embedded", **server_object(server)}))
    else:
        typer.echo(f"Embedded server of {settings.project}: {server_sentence(server)}")


@db_app.command("url")
def db_url(
    reveal: Annotated[bool, typer.Option("--reveal", help="With the password.")] = False,
) -> None:
    """Print the database's URL, for psql and other tools. Starts the embedded server if need be."""
    from assay.adapters.embedded.server import EmbeddedServer
    from assay.cli.database_url import masked
    from assay.cli.said import say
    from assay.config import load_settings

    settings = load_settings()
    url = settings.database_url
    if url is None:
        with EmbeddedServer(settings.project, progress=say).acquire() as lease:
            url = lease.url
    typer.echo(url if reveal else masked(url))


@db_app.command("restored")
def db_restored(
    as_json: Annotated[bool, typer.Option("--json", help="Print it as one JSON object.")] = False,
) -> None:
    """Tell a database that it was restored from a backup, before any worker or publisher starts.

    New labels then have event ids that no consumer has seen, and a higher epoch: they replace what the backup
    has forgotten. Once too often does no harm.
    """
    from assay.adapters.postgres.restore_store import note_restore
    from assay.cli.json_text import to_json
    from assay.cli.opened import existing_database
    from assay.config import load_settings

    with existing_database(load_settings()) as url:
        epoch = note_restore(url)
    if as_json:
        typer.echo(to_json({"restore_epoch": epoch}))
    else:
        typer.echo(f"Restore epoch {epoch}. Now `assay audit`, then start workers and publishers.")


@db_app.command("stop")
def db_stop(
    force: Annotated[bool, typer.Option("--force", help="Even while a command uses it.")] = False,
) -> None:
    """Stop the embedded server. It starts again with the next command; nothing is lost."""
    from assay.adapters.embedded.server import EmbeddedServer
    from assay.config import load_settings
    from assay.domain.failures import ConfigurationError

    settings = load_settings()
    if settings.database_url is not None:
        raise ConfigurationError(
            "ASSAY_DATABASE_URL names a server of your own, which assay does not stop; unset it to stop "
            "the embedded one."
        )
    stopped = EmbeddedServer(settings.project).stop(force=force)
    typer.echo("The embedded server is stopped." if stopped else "The embedded server was not running.")


@db_app.command("prune")
def db_prune(
    yes: Annotated[bool, typer.Option("--yes", help="Delete them; without it they are only listed.")] = False,
) -> None:
    """List (or delete) embedded databases kept outside of projects whose project is gone."""
    from assay.adapters.embedded import abandoned_databases

    found = abandoned_databases()
    for database in found:
        if yes:
            database.remove()
        typer.echo(f"{'Deleted' if yes else 'Abandoned'}: {database.folder} (of {database.project})")
    if not found:
        typer.echo("No database is without its project.")
    elif not yes:
        typer.echo("A project on a disk that is not mounted looks gone too. Delete them with --yes.")
