"""How a server and a database are, as `assay doctor` tells it. Changes nothing."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime

import psycopg
from psycopg.rows import tuple_row

from assay.adapters.postgres.queries import queries


@dataclass(frozen=True, slots=True)
class ServerHealth:
    """`seconds_ahead`: how far the server's clock is ahead of this machine's, give or take the journey."""

    version: str
    seconds_ahead: float
    standby: bool
    read_only: bool
    database_bytes: int
    most_connections: int
    connections: int
    may_create: bool


@dataclass(frozen=True, slots=True)
class ClockHealth:
    """`kind` is production, test or drill; `scale` how fast assay's clock runs, 1 as real time does."""

    kind: str
    scale: float
    now: datetime


def server_health(url: str) -> ServerHealth:
    """Ask the server. Raises `psycopg.Error` when it cannot be asked."""
    with psycopg.connect(
        url, row_factory=tuple_row, connect_timeout=10, application_name="assay doctor"
    ) as db:
        before = time.time()
        row = db.execute(queries("health")["health_server"]).fetchone()
        after = time.time()
    if row is None:
        raise psycopg.DataError("a row was expected")
    version, now, standby, read_only, size, most, connections, may_create = row
    ahead = now.timestamp() - (before + after) / 2
    return ServerHealth(
        str(version).split()[0], ahead, standby, read_only, size, most, connections, may_create
    )


def clock_health(url: str) -> ClockHealth:
    """The clock of a migrated database."""
    with psycopg.connect(
        url, row_factory=tuple_row, connect_timeout=10, application_name="assay doctor"
    ) as db:
        row = db.execute(queries("health")["health_instance"]).fetchone()
    if row is None:
        raise psycopg.DataError("a row was expected")
    return ClockHealth(row[0], row[1], row[2])
