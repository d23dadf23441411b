"""Connections, and transactions that are tried again when PostgreSQL asks for it."""

from __future__ import annotations

import asyncio
import math
import os
import random
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

import psycopg
from psycopg import errors
from psycopg.rows import TupleRow, tuple_row
from psycopg_pool import AsyncConnectionPool

from assay.adapters.postgres.arrays import Column
from assay.domain.failures import AssayError

Connection = psycopg.AsyncConnection[TupleRow]
T = TypeVar("T")

_jitter: Final = random.SystemRandom()

_RETRYABLE: Final = (errors.DeadlockDetected, errors.SerializationFailure)
_LOST: Final = (
    errors.ReadOnlySqlTransaction,
    psycopg.OperationalError,
    psycopg.InterfaceError,
    errors.IdleInTransactionSessionTimeout,
)

# Seconds for a connection from the pool, until it counts as a try: what is waited for may have changed.
_CONNECTION_SECONDS: Final = 5.0
# Seconds for the question whether a pooled connection still lives.
_CHECK_SECONDS: Final = 5.0
# A worker that is stopped (a frozen machine) in the middle of a transaction holds its locks for so many
# seconds, and others wait for them. Our transactions are idle for no longer than it takes to compute.
_IDLE_SECONDS: Final = 10.0
# A transaction is given so many statement timeouts before its connection counts as dead.
_SILENCE: Final = 1.25


# Set to 1 where the URL leads to PgBouncer in transaction mode.
PGBOUNCER: Final = "ASSAY_PGBOUNCER"
_PREPARE_AFTER: Final = 5


class DatabaseUnavailable(AssayError):
    """PostgreSQL did not answer for as long as we were told to wait."""


class Pool(AsyncConnectionPool[Connection]):
    """Connections of a worker. A transaction that takes longer than `silence_seconds` loses its connection:
    the server's own limits do not help when its answers are swallowed on the way. While the database is away
    a transaction is tried again for `patience_seconds`; `away`: whether it is, as far as the last try knows.
    """

    silence_seconds: float = 60.0 * _SILENCE
    patience_seconds: float = 60.0
    away: bool = False
    gives_up_at: float = math.inf

    def wait_no_longer_than(self, seconds: float) -> None:
        """The worker is about to end: transactions give up on a database that is away so much longer."""
        self.gives_up_at = asyncio.get_running_loop().time() + seconds


def make_pool(
    url: str, *, size: int, statement_timeout_seconds: float = 60.0, patience_seconds: float = 60.0
) -> Pool:
    """A pool, not yet opened. Sessions are named, idle transactions and hung statements end by themselves.

    Plans are made for each execution: a batch is worth a millisecond of planning, and a generic plan that was
    cached while the tables were small scans them for ever after (measured: 370 ms instead of 6 for the events
    of 500 finishes).
    """
    milliseconds = int(statement_timeout_seconds * 1000)
    idle = min(milliseconds, int(_IDLE_SECONDS * 1000))
    pool = Pool(
        url,
        min_size=1,
        max_size=size,
        open=False,
        kwargs={
            "row_factory": tuple_row,
            "application_name": "assay",
            "options": startup_options(
                f"-c statement_timeout={milliseconds} -c idle_in_transaction_session_timeout={idle} "
                "-c plan_cache_mode=force_custom_plan -c random_page_cost=1.1"
            ),
            "prepare_threshold": prepare_threshold(),
            "keepalives_idle": 10,
            "connect_timeout": 10,
        },
        timeout=30,
        check=_check,
    )
    pool.silence_seconds = statement_timeout_seconds * _SILENCE
    pool.patience_seconds = patience_seconds
    return pool


def startup_options(options: str) -> str:
    """Settings of a session. PgBouncer refuses them: behind it they are the role's, and none are sent."""
    return "" if _behind_pgbouncer() else options


def prepare_threshold() -> int | None:
    """After how many executions a statement is prepared: never where the next may meet another session."""
    return None if _behind_pgbouncer() else _PREPARE_AFTER


def _behind_pgbouncer() -> bool:
    return os.environ.get(PGBOUNCER) == "1"


async def _check(connection: Connection) -> None:
    with _hung_up_after(connection, _CHECK_SECONDS):
        await AsyncConnectionPool.check_connection(connection)


@contextmanager
def _hung_up_after(connection: Connection, seconds: float) -> Iterator[None]:
    timer = asyncio.get_running_loop().call_later(seconds, hang_up, connection)
    try:
        yield
    finally:
        timer.cancel()


def hang_up(connection: psycopg.AsyncConnection[Any] | psycopg.Connection[Any]) -> None:
    """Shut down a connection's socket: whoever waits for an answer on it gets an error at once."""
    with (
        suppress(psycopg.OperationalError, OSError),
        socket.socket(fileno=os.dup(connection.fileno())) as end,
    ):
        end.shutdown(socket.SHUT_RDWR)


async def transact(
    pool: Pool,
    work: Callable[[Connection], Awaitable[T]],
    *,
    patience_seconds: float | None = None,
    clock: Callable[[], float] | None = None,
) -> T:
    """Run `work` in one transaction; try again after a deadlock, and after a lost connection.

    After a lost connection nobody knows whether the commit went through, so `work` must be safe to run
    twice: claims know their own leases by the attempt ids, finishes are fenced and proven by the history. A
    silent connection counts as lost. Raises `DatabaseUnavailable` once `patience_seconds` (the pool's, if not
    given) have passed without success, not before a second try.
    """
    now = clock or asyncio.get_running_loop().time
    began = now()
    tries = 0
    while True:
        try:
            result = await _try(pool, work)
            pool.away = False
            return result
        except _RETRYABLE:
            tries += 1
            pause = _jitter.uniform(0, min(0.05 * 2**tries, 1.0))
        except _LOST as lost:
            tries += 1
            # One lost connection is an accident, two in a row are an outage.
            pool.away = tries > 1
            patience = pool.patience_seconds if patience_seconds is None else patience_seconds
            # The second may come while we wait: a worker that was told to end does not wait for ever.
            left = min(began + patience, pool.gives_up_at) - now()
            if left <= 0 and tries > 1:
                raise DatabaseUnavailable(
                    f"PostgreSQL gave no answer ({type(lost).__name__}); nothing is lost, "
                    "start again when it is back."
                ) from None
            pause = min(_jitter.uniform(0.05, min(0.1 * 2**tries, 5.0)), max(left, 0.0))
        await asyncio.sleep(pause)


async def _try(pool: Pool, work: Callable[[Connection], Awaitable[T]]) -> T:
    connection = await pool.getconn(_CONNECTION_SECONDS)
    try:
        with _hung_up_after(connection, pool.silence_seconds):
            async with connection:
                result = await work(connection)
                # Here, because leaving the context passes over a connection that broke after the last answer.
                await connection.commit()
                return result
    finally:
        await pool.putconn(connection)


def columns(rows: Sequence[tuple[Any, ...]], names: tuple[str, ...]) -> dict[str, Column | None]:
    """Turn rows into one list per name: array parameters for `unnest`.

    A column without any value goes as NULL, which `unnest` fills up: nothing to encode, nothing to send.
    """
    if not rows:
        return {name: Column() for name in names}
    turned = zip(names, zip(*rows, strict=True), strict=True)
    return {name: Column(values) if any(v is not None for v in values) else None for name, values in turned}
