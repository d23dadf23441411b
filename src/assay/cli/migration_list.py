"""What `assay migrate` does once its options are read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import typer

from assay.adapters.embedded.server import EmbeddedServer
from assay.adapters.postgres.migrate import Migration, migrate, migrations, pending
from assay.adapters.postgres.reading import Row
from assay.adapters.postgres.status_store import StatusStore
from assay.cli.json_text import to_json
from assay.cli.opened import is_new
from assay.cli.said import say
from assay.cli.tables import console, table
from assay.config import Settings


@dataclass(frozen=True, slots=True)
class Migrations:
    """What the database has, what was applied just now, and what it still lacks."""

    applied: list[Row]
    new: list[Migration]
    pending: list[Migration]


def look(settings: Settings) -> Migrations:
    """How things stand; starts no server where there was none."""
    if is_new(settings):
        return Migrations([], [], migrations())
    with _unmigrated(settings) as url:
        return Migrations(StatusStore(url).applied_migrations(), [], pending(url))


def apply(settings: Settings) -> Migrations:
    """Apply what is missing."""
    with _unmigrated(settings) as url:
        new = migrate(url)
        return Migrations(StatusStore(url).applied_migrations(), new, [])


@contextmanager
def _unmigrated(settings: Settings) -> Iterator[str]:
    if settings.database_url is not None:
        yield settings.database_url
        return
    with EmbeddedServer(settings.project, progress=say).acquire() as lease:
        yield lease.url


def show(found: Migrations, *, as_json: bool) -> None:
    """Print the list."""
    new = {migration.version for migration in found.new}
    rows: list[Row] = [
        row | {"state": "applied now" if row["version"] in new else "applied"} for row in found.applied
    ]
    rows += [
        {"version": migration.version, "name": migration.name, "applied_at": None, "state": "pending"}
        for migration in found.pending
    ]
    if as_json:
        typer.echo(to_json({"migrations": rows, "pending": len(found.pending), "applied_now": len(new)}))
        return
    names = ("version", "name", "state", "applied_at")
    listed = [[f"{int(str(row['version'])):04d}", *(row[name] for name in names[1:])] for row in rows]
    screen = console()
    screen.print(table(None, ["migration", "name", "state", "applied at"], listed))
    if found.pending:
        screen.print("Apply them with `assay migrate`.")
