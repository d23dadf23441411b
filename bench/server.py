"""The PostgreSQL that the bench measures on: one of its own, in a temporary folder."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, LiteralString
from urllib.parse import quote

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import TupleRow

from assay.adapters.embedded.server import EmbeddedServer
from assay.adapters.embedded.settings import ServerSettings
from assay.adapters.postgres.migrate import migrate

# `tuned` has room for everything that a run writes; `shipped` is what the product starts with.
SETTINGS: Final = {
    "tuned": ServerSettings(
        shared_buffers="1GB", parameters={"max_wal_size": "8GB", "checkpoint_timeout": "15min"}
    ),
    "shipped": ServerSettings(),
}
TEMPLATE: Final = "bench_template"


@dataclass(frozen=True, slots=True)
class Server:
    """A running server. `url` is that of its maintenance database."""

    url: str
    pid: int

    def run(self, statement: LiteralString | sql.Composed) -> None:
        """Run one statement in the maintenance database."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement)

    @contextmanager
    def database(self, template: str = "template0") -> Iterator[Database]:
        """A database of its own for one measurement, checkpointed; it is dropped afterwards."""
        name = f"bench_{secrets.token_hex(6)}"
        create = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        self.run(create.format(sql.Identifier(name), sql.Identifier(template)))
        try:
            self.run("CHECKPOINT")
            yield Database(_swap(self.url, name))
        finally:
            self.run(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    def product_database(self) -> AbstractContextManager[Database]:
        """A database with the product's schema, empty."""
        return self.database(TEMPLATE)


@dataclass(frozen=True, slots=True)
class Database:
    """One database of the server."""

    url: str

    def rows(self, query: LiteralString, parameters: Sequence[object] = ()) -> list[TupleRow]:
        """The rows of a query."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            return connection.execute(query, parameters or None).fetchall()

    def run(self, statement: LiteralString) -> None:
        """Run one statement, or several without parameters."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement)

    def count(self, query: LiteralString) -> int:
        """The only value of a query, a whole number."""
        ((value,),) = self.rows(query)
        if not isinstance(value, int):
            raise TypeError(f"{query} gives no whole number")
        return value

    def wal_position(self) -> int:
        """Bytes of write-ahead log that the server has written since its start."""
        return self.count("SELECT (pg_current_wal_lsn() - '0/0')::bigint")


def _plain(url: str) -> str:
    """The URL without what only libpq understands: every driver of the bench gets the same one."""
    parts = {name: str(value) for name, value in conninfo_to_dict(url).items()}
    address = parts.get("hostaddr", parts["host"])
    secret = quote(parts["password"], safe="")
    return f"postgresql://{parts['user']}:{secret}@{address}:{parts['port']}/{parts['dbname']}"


def _swap(url: str, name: str) -> str:
    head, _, tail = url.partition("://")
    authority, _, rest = tail.partition("/")
    query = rest.partition("?")[2]
    return f"{head}://{authority}/{name}" + (f"?{query}" if query else "")


@contextmanager
def running_server(kind: str) -> Iterator[Server]:
    """Start a server with the settings of that kind, and the product's schema as a template."""
    with tempfile.TemporaryDirectory(prefix="assay-bench-") as folder:
        embedded = EmbeddedServer(Path(folder), settings=SETTINGS[kind])
        try:
            with embedded.acquire() as lease:
                pid = embedded.status().pid
                if pid is None:
                    raise RuntimeError("the server gave no process number")
                server = Server(_plain(lease.url), pid)
                server.run(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(TEMPLATE)))
                migrate(_swap(server.url, TEMPLATE))
                yield server
        finally:
            embedded.remove()
