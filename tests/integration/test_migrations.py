"""Migrations: numbered, with checksums, applied once, refused when they do not fit."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from threading import Barrier

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from assay.adapters.postgres import migrate as module
from assay.adapters.postgres.migrate import Migration, migrate, migrations, pending
from assay.domain.failures import ConfigurationError

MIGRATORS = 4


@pytest.fixture
def empty_url(server_url: str) -> Iterator[str]:
    """A database that was never migrated."""
    name = f"empty_{secrets.token_hex(6)}"
    with psycopg.connect(make_conninfo(server_url, dbname="postgres"), autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        yield make_conninfo(server_url, dbname=name)
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def _applied(url: str) -> list[tuple[int, str, str]]:
    with psycopg.connect(url) as connection:
        return connection.execute(
            "SELECT version, name, checksum FROM public.assay_migrations ORDER BY version"
        ).fetchall()


def _tables(url: str) -> int:
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE c.relkind = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema')"
        ).fetchall()
    return int(rows[0][0])


def test_migrations_are_numbered_and_have_the_checksum_of_their_bytes() -> None:
    shipped = migrations()
    assert [each.version for each in shipped] == list(range(1, len(shipped) + 1))
    for each in shipped:
        file = files("assay.adapters.postgres") / "migrations" / f"{each.version:04d}_{each.name}.sql"
        assert each.checksum == hashlib.sha256(file.read_bytes()).hexdigest()


def test_pending_lists_what_is_missing_and_changes_nothing(empty_url: str) -> None:
    assert pending(empty_url) == migrations()
    assert _tables(empty_url) == 0
    assert migrate(empty_url) == migrations()
    assert pending(empty_url) == []


def test_migrating_again_changes_nothing(empty_url: str) -> None:
    migrate(empty_url)
    before = _applied(empty_url)
    assert before == [(each.version, each.name, each.checksum) for each in migrations()]
    assert migrate(empty_url) == []
    assert _applied(empty_url) == before


def test_a_migration_applied_with_other_content_is_refused(empty_url: str) -> None:
    migrate(empty_url)
    with psycopg.connect(empty_url) as connection:
        connection.execute("UPDATE public.assay_migrations SET checksum = repeat('0', 64) WHERE version = 2")
    for look in (migrate, pending):
        with pytest.raises(ConfigurationError, match=r"Migration 0002_\w+ was applied with other content"):
            look(empty_url)


def test_a_newer_migration_is_refused(empty_url: str) -> None:
    migrate(empty_url)
    with psycopg.connect(empty_url) as connection:
        connection.execute("INSERT INTO public.assay_migrations VALUES (9999, 'future', 'x')")
    for look in (migrate, pending):
        with pytest.raises(ConfigurationError, match="migration 9999, which this assay does not know"):
            look(empty_url)


def test_migrators_at_once_apply_each_migration_once(empty_url: str) -> None:
    start = Barrier(MIGRATORS)

    def one(_: int) -> list[Migration]:
        start.wait()
        return migrate(empty_url)

    with ThreadPoolExecutor(MIGRATORS) as threads:
        done = list(threads.map(one, range(MIGRATORS)))
    assert sorted(done, key=len) == [*[[]] * (MIGRATORS - 1), migrations()]
    assert len(_applied(empty_url)) == len(migrations())


def test_a_failing_migration_leaves_nothing_and_can_be_tried_again(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = migrations()
    number = len(shipped) + 1
    bad = Migration(number, "bad", "CREATE TABLE public.half_done (); SELECT 1 / 0", "bad")
    good = Migration(number, "bad", "CREATE TABLE public.whole ()", "good")
    monkeypatch.setattr(module, "migrations", lambda: [*shipped, bad])
    with pytest.raises(psycopg.errors.DivisionByZero):
        migrate(empty_url)
    assert [version for version, _, _ in _applied(empty_url)] == [each.version for each in shipped]
    monkeypatch.setattr(module, "migrations", lambda: [*shipped, good])
    assert migrate(empty_url) == [good]
    with psycopg.connect(empty_url) as connection:
        row = connection.execute(
            "SELECT to_regclass('public.half_done'), to_regclass('public.whole')"
        ).fetchone()
    assert row == (None, "whole")
