"""Connecting to the server, and making sure that the one that answers is the project's own."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import psycopg
from psycopg import pq, sql

from assay.adapters.embedded.cluster import SUPERUSER
from assay.adapters.embedded.postmaster import read_postmaster, system_identifier

DATABASE = "assay"
_ALWAYS_THERE = "postgres"
_WHO = """
SELECT system_identifier::text, split_part(pg_read_file('postmaster.pid'), E'\\n', 1) FROM pg_control_system()
"""


class Answer(StrEnum):
    """What came of trying to connect."""

    OURS = "ours"
    BUSY = "busy"  # starting, stopping or recovering: it will take connections later
    FOREIGN = "foreign"
    SILENT = "silent"
    REFUSED = "refused"


def connection_url(password: str, port: int, database: str = DATABASE) -> str:
    """The conninfo URL, password included: never log it."""
    # Explicit, or PGHOSTADDR and PGSSLMODE of the caller would lead elsewhere.
    where = f"127.0.0.1:{port}/{database}?hostaddr=127.0.0.1&sslmode=disable"
    return f"postgresql://{SUPERUSER}:{password}@{where}"


def ask(data: Path, password: str, port: int, timeout: float) -> Answer:
    """Connect as superuser and check that the server runs on `data`; make the database when it is missing."""
    seconds = max(2, round(timeout))  # libpq counts whole seconds and makes 1 a 2
    url = connection_url(password, port, _ALWAYS_THERE)
    try:
        with psycopg.connect(url, connect_timeout=seconds, autocommit=True) as connection:
            if not _is_ours(connection, data):
                return Answer.FOREIGN
            _ensure_database(connection)
    except psycopg.errors.ConnectionTimeout:
        return Answer.SILENT
    except psycopg.OperationalError:
        return _why_not(port, seconds)
    return Answer.OURS


def _is_ours(connection: psycopg.Connection, data: Path) -> bool:
    row = connection.execute(_WHO).fetchone()
    here = read_postmaster(data)
    return row is not None and here is not None and row == (str(system_identifier(data)), str(here.pid))


def _ensure_database(connection: psycopg.Connection) -> None:
    found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,)).fetchone()
    if found is None:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))


def _why_not(port: int, seconds: int) -> Answer:
    """libpq's own ping tells a server that starts, stops or recovers from one that refuses us."""
    conninfo = f"host=127.0.0.1 port={port} user={SUPERUSER} dbname={_ALWAYS_THERE} connect_timeout={seconds}"
    return Answer.BUSY if pq.PGconn.ping(conninfo.encode()) == pq.Ping.REJECT else Answer.REFUSED
