"""What every test relies on: no paid API can be reached, a skip is a failure where that is asked for, and a
real PostgreSQL with a fresh, migrated database per test."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from assay.adapters.embedded.server import EmbeddedServer
from assay.adapters.postgres.migrate import migrate

# Before any adapter is made: the model transport refuses every host but this machine.
os.environ["ASSAY_ONLY_LOOPBACK"] = "1"
for name in (
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "ASSAY_MODEL_API_KEY",
    "ASSAY_DATABASE_URL",
    "ASSAY_CRASH",
):
    os.environ.pop(name, None)

_ROOT = Path(__file__).resolve().parents[1]


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
    """With ASSAY_NO_SKIPS=1 a skipped or expected failure fails the run."""
    skipped = sum(len(terminalreporter.stats.get(kind, [])) for kind in ("skipped", "xfailed", "xpassed"))
    if skipped and os.environ.get("ASSAY_NO_SKIPS") == "1":
        terminalreporter.section("skips are failures here")
        terminalreporter.write_line(f"{skipped} test(s) did not run")
        terminalreporter._session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def server_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a server: ASSAY_TEST_DATABASE_URL, or one embedded server for the whole test run."""
    if given := os.environ.get("ASSAY_TEST_DATABASE_URL"):
        yield given
        return
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    project = shared / "server"
    project.mkdir(exist_ok=True)
    with EmbeddedServer(project).acquire() as lease:
        yield lease.url


@pytest.fixture(scope="session")
def template_database(server_url: str) -> Iterator[str]:
    """The name of a migrated database, marked as a test database, that others are copied from."""
    name = f"template_{secrets.token_hex(6)}"
    _administer(server_url, sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    migrate(database_url(server_url, name))
    with psycopg.connect(database_url(server_url, name)) as connection:
        connection.execute("UPDATE assay.instance SET kind = 'test'")
    yield name
    _administer(server_url, sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def db_url(server_url: str, template_database: str) -> Iterator[str]:
    """The URL of a migrated database of this test's own."""
    name = f"test_{secrets.token_hex(6)}"
    _administer(
        server_url,
        sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
            sql.Identifier(name), sql.Identifier(template_database)
        ),
    )
    yield database_url(server_url, name)
    _administer(server_url, sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def database_url(server_url: str, name: str) -> str:
    """The same server, another database."""
    return (
        psycopg.conninfo.make_conninfo(server_url, dbname=name)
        if "://" not in server_url
        else _swap(server_url, name)
    )


def _swap(url: str, name: str) -> str:
    head, _, tail = url.partition("://")
    authority, _, rest = tail.partition("/")
    query = rest.partition("?")[2]
    return f"{head}://{authority}/{name}" + (f"?{query}" if query else "")


def _administer(server_url: str, statement: sql.Composed) -> None:
    with psycopg.connect(database_url(server_url, "postgres"), autocommit=True) as connection:
        connection.execute(statement)
