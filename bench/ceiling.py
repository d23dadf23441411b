"""The bare loop: claim a batch, finish it with its events, next batch. What PostgreSQL gives at most here."""

from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any, Protocol
from uuid import UUID, uuid4

import psycopg
from psycopg.rows import tuple_row

from bench.ceiling_sql import ASYNCPG_CLAIM, ASYNCPG_FINISH, PSYCOPG_CLAIM, PSYCOPG_FINISH
from bench.children import Figures

LABEL = '{"category":"billing","confidence":0.97}'
_SHA256 = b"\x5a" * 32


class Link(Protocol):
    """One connection of a driver, with the two statements of the loop; each answers with how many rows."""

    async def claim(self, records: Sequence[UUID], attempts: Sequence[UUID]) -> int: ...

    async def finish(self, records: Sequence[UUID], attempts: Sequence[UUID]) -> int: ...


class PsycopgLink:
    """psycopg 3 with binary arrays and prepared statements."""

    def __init__(self, connection: psycopg.AsyncConnection[tuple[Any, ...]]) -> None:
        self._connection = connection

    async def claim(self, records: Sequence[UUID], attempts: Sequence[UUID]) -> int:
        hashes = [_SHA256] * len(records)
        cursor = await self._connection.execute(PSYCOPG_CLAIM, (list(records), list(attempts), hashes))
        return len(await cursor.fetchall())

    async def finish(self, records: Sequence[UUID], attempts: Sequence[UUID]) -> int:
        labels = [LABEL] * len(records)
        cursor = await self._connection.execute(PSYCOPG_FINISH, (list(records), list(attempts), labels))
        return len(await cursor.fetchall())


class AsyncpgLink:
    """asyncpg with its prepared statements."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def claim(self, records: Sequence[UUID], attempts: Sequence[UUID]) -> int:
        return len(await self._connection.fetch(ASYNCPG_CLAIM, records, attempts, [_SHA256] * len(records)))

    async def finish(self, records: Sequence[UUID], attempts: Sequence[UUID]) -> int:
        return len(await self._connection.fetch(ASYNCPG_FINISH, records, attempts, [LABEL] * len(records)))


@asynccontextmanager
async def _psycopg(url: str) -> AsyncIterator[Link]:
    connection = await psycopg.AsyncConnection.connect(
        url, autocommit=True, prepare_threshold=0, row_factory=tuple_row
    )
    async with connection:
        yield PsycopgLink(connection)


@asynccontextmanager
async def _asyncpg(url: str) -> AsyncIterator[Link]:
    connection = await importlib.import_module("asyncpg").connect(url)
    try:
        yield AsyncpgLink(connection)
    finally:
        await connection.close()


_DRIVERS = {"psycopg": _psycopg, "asyncpg": _asyncpg}


def prepare(spec: dict[str, Any]) -> Callable[[], Figures]:
    """`url`, `driver`, `connections`, `batch`, `records`."""
    return lambda: asyncio.run(_loop(spec))


def ordered_ids(count: int) -> Iterator[UUID]:
    """Identities in the order of their making, as time-ordered keys have them."""
    base = time.time_ns() << 64
    return (UUID(int=base + number) for number in range(count))


async def _loop(spec: dict[str, Any]) -> Figures:
    batch, left = spec["batch"], ordered_ids(spec["records"])
    claimed = finished = 0

    async def work(link: Link) -> None:
        nonlocal claimed, finished
        while records := list(islice(left, batch)):
            attempts = [uuid4() for _ in records]
            won = await link.claim(records, attempts)
            done = await link.finish(records, attempts)
            claimed, finished = claimed + won, finished + done

    open_link = _DRIVERS[spec["driver"]]

    async def connected() -> None:
        async with open_link(spec["url"]) as link:
            await work(link)

    cpu, begun = time.process_time(), time.perf_counter()
    await asyncio.gather(*(connected() for _ in range(spec["connections"])))
    return {
        "wall": time.perf_counter() - begun,
        "cpu": time.process_time() - cpu,
        "claimed": float(claimed),
        "finished": float(finished),
    }
