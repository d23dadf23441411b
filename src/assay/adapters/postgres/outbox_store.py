"""The outbox of one publisher: its buckets, what waits in them, what was delivered."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final, TypeVar

from psycopg import errors

from assay.adapters.postgres.outbox_floors import Floors
from assay.adapters.postgres.queries import queries
from assay.adapters.postgres.session import Connection, DatabaseUnavailable, Pool, columns, transact
from assay.domain.failures import ConfigurationError
from assay.domain.outbox import Backlog, OutboxEvent, Waiting
from assay.ports import Probe

T = TypeVar("T")

# Class of the advisory lock under which publishers take turns.
SHARE_LOCKS: Final = 1668508012
# Partitions for receipts: today and so many days more.
DAYS_AHEAD: Final = 7


class OutboxStore:
    """One publisher (`publisher`) that sends to `sink` and holds its buckets for `lease_seconds` at a time.

    Every method raises `ConnectionError` while PostgreSQL is away, after `patience_seconds`.
    """

    def __init__(
        self,
        pool: Pool,
        *,
        publisher: str,
        sink: str,
        lease_seconds: float,
        patience_seconds: float = 10.0,
        probe: Probe = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pool = pool
        self._probe = probe
        self._sql = queries("outbox")
        self._me = {"publisher": publisher}
        self._sink = sink
        self._lease_seconds = lease_seconds
        self._patience = patience_seconds
        self._partitions_made: date | None = None
        self._clock = clock
        self._floors = Floors()

    async def share(self) -> tuple[frozenset[int], int]:
        """Take a turn; the buckets held, and how many are the fair share."""
        return await self._transact(self._share)

    async def _share(self, connection: Connection) -> tuple[frozenset[int], int]:
        terms = self._me | {"sink": self._sink, "lease_seconds": self._lease_seconds}
        await connection.execute(self._sql["outbox_lock_shares"], {"lock_class": SHARE_LOCKS})
        others = await self._all(connection, "outbox_other_sinks", self._me | {"sink": self._sink})
        for publisher, sink in others:
            raise ConfigurationError(
                f"Publisher {publisher} sends this outbox to {sink}, and events go to one place: end that "
                "publisher first, or send there."
            )
        rows = await self._all(connection, "outbox_share", terms)
        return frozenset(bucket for bucket, _ in rows if bucket is not None), int(rows[0][1])

    async def read(self, most: int, most_each: int) -> list[Waiting]:
        """The next events, at most `most` in all and `most_each` of one bucket, in order per aggregate."""
        rows = await self._transact(lambda c: self._read(c, most, most_each))
        return [_waiting(row) for row in rows]

    async def _read(self, connection: Connection, most: int, most_each: int) -> list[tuple[Any, ...]]:
        floors = self._floors
        if floors.due(self._clock()):
            floors.learn(await self._all(connection, "outbox_floors", floors.question()))
        terms = self._me | floors.terms() | {"most": most, "most_each": most_each}
        return await self._all(connection, "outbox_read", terms)

    async def record(self, delivered: Sequence[tuple[Waiting, str | None]]) -> frozenset[int]:
        """Turn what was delivered into receipts; the buckets that were still held."""
        rows = [(waiting.bucket, waiting.event.outbox_id, position) for waiting, position in delivered]
        terms = (
            self._me
            | {"sink": self._sink}
            | columns(rows, ("buckets", "outbox_ids", "positions"))
            | self._fence([waiting for waiting, _ in delivered])
        )
        try:
            return await self._transact(lambda c: self._record(c, terms))
        except errors.CheckViolation:  # no partition for this day: publishers were away, or the clock jumped
            await self.make_partitions()
            return await self._transact(lambda c: self._record(c, terms))

    async def _record(self, connection: Connection, terms: Any) -> frozenset[int]:
        held = await self._all(connection, "outbox_record", terms)
        self._probe("before_receipt")
        return frozenset(bucket for (bucket,) in held)

    async def refuse(self, refused: Sequence[tuple[Waiting, str, float]]) -> None:
        """Hold back aggregates whose first event the sink refuses: (event, reason, seconds until a retry)."""
        rows = [(each.bucket, each.event.outbox_id, reason, delay) for each, reason, delay in refused]
        terms = (
            self._me
            | columns(rows, ("buckets", "outbox_ids", "reasons", "delays"))
            | self._fence([each for each, _, _ in refused])
        )
        await self._transact(lambda c: self._all(c, "outbox_refused", terms, answers=False))

    async def backlog(self) -> Backlog:
        """What waits in the whole outbox; once a day also room for the receipts of days to come."""
        ((now, events, oldest, blocked),) = await self._transact(lambda c: self._all(c, "outbox_backlog", {}))
        if now.date() != self._partitions_made:
            await self.make_partitions()
            self._partitions_made = now.date()
        return Backlog(now, events, None if oldest is None else max(oldest, 0.0), blocked)

    async def drained(self, created_until: datetime) -> bool:
        """Whether no event created until then waits, but for those that a refused one holds back."""
        terms = {"created_until": created_until}
        ((gone,),) = await self._transact(lambda c: self._all(c, "outbox_drained", terms))
        return bool(gone)

    async def make_partitions(self) -> int:
        """Make room for the receipts of the coming days; how many partitions were made."""
        ((made,),) = await self._transact(
            lambda c: self._all(c, "outbox_make_partitions", {"ahead": DAYS_AHEAD})
        )
        return int(made)

    async def leave(self) -> None:
        """Give the buckets back."""
        await self._transact(lambda c: self._all(c, "outbox_leave", self._me, answers=False))

    @staticmethod
    def _fence(read: Sequence[Waiting]) -> dict[str, Any]:
        held = sorted({(each.bucket, each.lease_revision) for each in read})
        return dict(columns(held, ("held_buckets", "held_revisions")))

    async def _transact(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        try:
            return await transact(self._pool, work, patience_seconds=self._patience)
        except DatabaseUnavailable as away:
            raise ConnectionError("PostgreSQL gives no answer") from away

    async def _all(
        self, connection: Connection, name: str, terms: Any, *, answers: bool = True
    ) -> list[tuple[Any, ...]]:
        cursor = await connection.execute(self._sql[name], terms)
        return await cursor.fetchall() if answers else []


def _waiting(row: tuple[Any, ...]) -> Waiting:
    """A row of `outbox_read`."""
    (bucket, outbox_id, event_id, aggregate_kind, aggregate_id, kind, revision, task_id, payload, created_at,
     tries, lease_revision, epoch) = row  # fmt: skip
    event = OutboxEvent(
        event_id=event_id, outbox_id=outbox_id, aggregate_kind=aggregate_kind, aggregate_id=aggregate_id,
        kind=kind, revision=revision, task_id=task_id, payload=_payload(payload),
        created_at=created_at, restore_epoch=epoch,
    )  # fmt: skip
    return Waiting(event, bucket, lease_revision, tries)


def _payload(text: str) -> dict[str, Any]:
    """The payload with its numbers digit by digit, as the database has them."""
    read: dict[str, Any] = json.loads(text, parse_float=_exact)
    return read


def _exact(digits: str) -> float | Decimal:
    number = float(digits)
    return number if repr(number) == digits else Decimal(digits)
