"""Waiting for something to show in the database, instead of sleeping."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import psycopg
from psycopg.rows import TupleRow

PATIENCE: Final = 30.0
POLL: Final = 0.002


def until(condition: Callable[[], object], what: str) -> None:
    """Ask again and again until it holds; fails after PATIENCE seconds."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(POLL)


def until_blocked(db: psycopg.Connection[TupleRow], count: int = 1) -> None:
    """Until so many sessions of this database wait for a lock."""

    def blocked() -> bool:
        row = db.execute(
            "SELECT count(*) FROM pg_stat_activity "
            "WHERE datname = current_database() AND wait_event_type = 'Lock'"
        ).fetchone()
        return row is not None and row[0] >= count

    until(blocked, f"{count} blocked session(s)")


def deadlocks(db: psycopg.Connection[TupleRow]) -> int:
    """Deadlocks that PostgreSQL has broken in this database; call it when no other session is left."""

    def alone() -> bool:
        row = db.execute(
            "SELECT count(*) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ).fetchone()
        return row is not None and row[0] == 0

    until(alone, "the other sessions to end")
    row = db.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").fetchone()
    assert row is not None
    return int(row[0])
