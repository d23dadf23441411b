"""Numbered migrations with checksums, applied under one advisory lock."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from importlib.resources import files
from typing import Final, LiteralString, cast

import psycopg
from psycopg.rows import tuple_row

from assay.domain.failures import ConfigurationError

_FILE: Final = re.compile(r"^(\d{4})_([a-z0-9_]+)\.sql$")
_LOCK: Final = 0x61737361  # one number for "migrating", shared by every assay
SUPPORTED_SERVERS: Final = range(15, 19)

_TABLE: Final[LiteralString] = """
CREATE TABLE IF NOT EXISTS public.assay_migrations (
    version    integer PRIMARY KEY,
    name       text NOT NULL,
    checksum   text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
)
"""


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file; `checksum` is the SHA-256 of its bytes in hex."""

    version: int
    name: str
    sql: str
    checksum: str


def migrations() -> list[Migration]:
    """The migrations that ship with this package, in order, without gaps."""
    found = []
    for entry in (files("assay.adapters.postgres") / "migrations").iterdir():
        if match := _FILE.match(entry.name):
            body = entry.read_bytes()
            found.append(
                Migration(int(match[1]), match[2], body.decode("utf-8"), hashlib.sha256(body).hexdigest())
            )
    found.sort(key=lambda migration: migration.version)
    if [migration.version for migration in found] != list(range(1, len(found) + 1)):
        raise ConfigurationError("The package's migrations have a gap; install assay again.")
    return found


def _applied(connection: psycopg.Connection[tuple[object, ...]]) -> dict[int, str]:
    exists = connection.execute("SELECT to_regclass('public.assay_migrations') IS NOT NULL").fetchone()
    if exists is None or not exists[0]:
        return {}
    rows = connection.execute("SELECT version, checksum FROM public.assay_migrations ORDER BY version")
    return {cast(int, version): cast(str, checksum) for version, checksum in rows}


def _check(applied: dict[int, str], known: list[Migration]) -> None:
    if unknown := sorted(set(applied) - {migration.version for migration in known}):
        raise ConfigurationError(
            f"The database has migration {unknown[-1]:04d}, which this assay does not know; "
            "use the newer assay that applied it."
        )
    for migration in known:
        if migration.version in applied and applied[migration.version] != migration.checksum:
            raise ConfigurationError(
                f"Migration {migration.version:04d}_{migration.name} was applied with other content; "
                "use the assay release that applied it, or restore the database from a backup."
            )


def check_server(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    """Raises `ConfigurationError` for a PostgreSQL that assay is not tested with."""
    major = connection.info.server_version // 10000
    if major not in SUPPORTED_SERVERS:
        raise ConfigurationError(
            f"PostgreSQL {major} is not supported; use {SUPPORTED_SERVERS[0]} to {SUPPORTED_SERVERS[-1]}."
        )


def is_empty(url: str) -> bool:
    """Whether the database has never been migrated."""
    with psycopg.connect(url, row_factory=tuple_row) as connection:
        check_server(connection)
        return not _applied(connection)


def pending(url: str) -> list[Migration]:
    """The migrations that the database at `url` lacks. Changes nothing."""
    with psycopg.connect(url, row_factory=tuple_row) as connection:
        applied = _applied(connection)
    known = migrations()
    _check(applied, known)
    return [migration for migration in known if migration.version not in applied]


def migrate(url: str) -> list[Migration]:
    """Apply what is missing, each migration in its own transaction, and return what was applied.

    Two callers at once are serialised by an advisory lock. Raises `ConfigurationError` for a changed or
    unknown migration and for an unsupported server.
    """
    known = migrations()
    done: list[Migration] = []
    with psycopg.connect(url, autocommit=True, row_factory=tuple_row) as connection:
        check_server(connection)
        connection.execute("SELECT pg_advisory_lock(%s)", (_LOCK,))
        connection.execute(_TABLE)
        applied = _applied(connection)
        _check(applied, known)
        for migration in known:
            if migration.version in applied:
                continue
            with connection.transaction():
                connection.execute(migration.sql)
                connection.execute(
                    "INSERT INTO public.assay_migrations (version, name, checksum) VALUES (%s, %s, %s)",
                    (migration.version, migration.name, migration.checksum),
                )
            done.append(migration)
    return done
