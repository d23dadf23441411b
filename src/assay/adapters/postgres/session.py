"""Connections, and transactions that are tried again when PostgreSQL asks for it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import psycopg
from psycopg import errors
from psycopg.rows import TupleRow, tuple_row
from psycopg_pool import AsyncConnectionPool

from assay.domain.failures import AssayError

Connection = psycopg.AsyncConnection[TupleRow]
Pool = AsyncConnectionPool[Connection]
T = TypeVar("T")

_jitter: Final = random.SystemRandom()

_RETRYABLE: Final = (errors.DeadlockDetected, errors.SerializationFailure)
_LOST: Final = (psycopg.OperationalError, psycopg.InterfaceError)


class DatabaseUnavailable(AssayError):
    """PostgreSQL did not answer for as long as we were told to wait."""


def make_pool(url: str, *, size: int, statement_timeout_seconds: float = 60.0) -> Pool:
    """A pool, not yet opened. Sessions are named, idle transactions and hung statements end by themselves."""
    milliseconds = int(statement_timeout_seconds * 1000)
    return AsyncConnectionPool(
        url,
        min_size=1,
        max_size=size,
        open=False,
        kwargs={
            "row_factory": tuple_row,
            "application_name": "assay",
            "options": f"-c statement_timeout={milliseconds} "
            f"-c idle_in_transaction_session_timeout={milliseconds}",
            "keepalives_idle": 10,
            "connect_timeout": 10,
        },
        timeout=30,
        check=AsyncConnectionPool.check_connection,
    )


async def transact(
    pool: Pool,
    work: Callable[[Connection], Awaitable[T]],
    *,
    patience_seconds: float = 60.0,
    clock: Callable[[], float] | None = None,
) -> T:
    """Run `work` in one transaction; try again after a deadlock, and after a lost connection.

    After a lost connection nobody knows whether the commit went through, so `work` must be safe to run
    twice: claims made by a lost transaction are leases that expire, finishes are fenced and proven by the
    history. Raises `DatabaseUnavailable` once `patience_seconds` have passed without success.
    """
    now = clock or asyncio.get_running_loop().time
    deadline = now() + patience_seconds
    tries = 0
    while True:
        try:
            async with pool.connection() as connection:
                return await work(connection)
        except _RETRYABLE:
            tries += 1
            pause = _jitter.uniform(0, min(0.05 * 2**tries, 1.0))
        except _LOST as lost:
            tries += 1
            if isinstance(lost, errors.QueryCanceled) or now() >= deadline:
                raise DatabaseUnavailable(
                    f"PostgreSQL gave no answer ({type(lost).__name__}); nothing is lost, "
                    "start again when it is back."
                ) from None
            pause = _jitter.uniform(0.05, min(0.1 * 2**tries, 5.0))
        await asyncio.sleep(min(pause, max(deadline - now(), 0.0)))


def columns(rows: list[tuple[Any, ...]], names: tuple[str, ...]) -> dict[str, list[Any]]:
    """Turn rows into one list per name: array parameters for `unnest`."""
    turned = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    return {name: list(values) for name, values in zip(names, turned, strict=True)}
