"""What every test relies on: no paid API can be reached, a skip is a failure where that is asked for, and a
real PostgreSQL with a fresh, migrated database per test."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from psycopg import sql

from assay.adapters.embedded.server import EmbeddedServer
from assay.adapters.postgres.migrate import migrate

# Before any adapter is made: the model transport refuses every host but this machine.
os.environ["ASSAY_ONLY_LOOPBACK"] = "1"
# An event or a field that the table of events does not name is an error here.
os.environ["ASSAY_LOG_STRICT"] = "1"
for name in (
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "ASSAY_MODEL_API_KEY",
    "ASSAY_DATABASE_URL",
    "ASSAY_CRASH",
):
    os.environ.pop(name, None)

# One server for the run and its workers, which inherit the variable.
if "ASSAY_TEST_SERVER" not in os.environ:
    os.environ["ASSAY_TEST_SERVER"] = tempfile.mkdtemp(prefix="assay-test-server-")
    os.environ["ASSAY_TEST_SERVER_OWNER"] = str(os.getpid())

# Shared machines are slow at times; a test is no stopwatch. Examples are the same in every run of a commit.
settings.register_profile(
    "house", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("house")


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
    """With ASSAY_NO_SKIPS=1 a skipped or expected failure fails the run."""
    skipped = sum(len(terminalreporter.stats.get(kind, [])) for kind in ("skipped", "xfailed", "xpassed"))
    if skipped and os.environ.get("ASSAY_NO_SKIPS") == "1":
        terminalreporter.section("skips are failures here")
        terminalreporter.write_line(f"{skipped} test(s) did not run")
        terminalreporter._session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    """URL of a server: ASSAY_TEST_DATABASE_URL, or one embedded server for the whole test run."""
    if given := os.environ.get("ASSAY_TEST_DATABASE_URL"):
        yield given
        return
    with EmbeddedServer(Path(os.environ["ASSAY_TEST_SERVER"])).acquire() as lease:
        yield lease.url


def pytest_sessionfinish() -> None:
    """The server goes with the test run that made it; its workers have given their leases back by now."""
    if os.environ["ASSAY_TEST_SERVER_OWNER"] != str(os.getpid()):
        return
    project = Path(os.environ["ASSAY_TEST_SERVER"])
    if (project / ".assay").is_dir():
        EmbeddedServer(project).remove()
    shutil.rmtree(project, ignore_errors=True)


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
    return _swap(server_url, name)


def _swap(url: str, name: str) -> str:
    head, _, tail = url.partition("://")
    authority, _, rest = tail.partition("/")
    query = rest.partition("?")[2]
    return f"{head}://{authority}/{name}" + (f"?{query}" if query else "")


def _administer(server_url: str, statement: sql.Composed) -> None:
    with psycopg.connect(database_url(server_url, "postgres"), autocommit=True) as connection:
        connection.execute(statement)
