"""What a consumer has applied, in its own database and inside its own transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from importlib.resources import files
from typing import Final, TypeAlias

from psycopg import AsyncConnection, Connection
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from assay.consumer.event import ConsumedEvent

KEEP: Final = timedelta(days=7)

_Statement: TypeAlias = tuple[bytes, Mapping[str, object]]
_SQL: Final = files("assay.consumer") / "sql"


def _text(name: str) -> bytes:
    return (_SQL / f"{name}.sql").read_bytes()


_CREATE: Final = (_text("create_lock"), _text("create"))
_ACCEPT: Final = _text("accept")
_NOTE: Final = (_text("note_lock"), _text("note_accept"))
_PRUNE: Final = (_text("prune_mark"), _text("prune_delete"))


class Inbox:
    """What was applied of one stream of events. Every method runs inside the transaction of `connection`.

    `name` tells streams apart: give each assay database that you read from a name of its own. An inbox keeps
    nothing in memory; any number of processes may use the same one. The tables `assay_inbox` and
    `assay_inbox_notes` are found by the connection's search path.
    """

    def __init__(self, name: str = "assay") -> None:
        self._name = name

    @staticmethod
    def create_table(connection: Connection[object]) -> None:
        """Make the tables where they are missing. Any number of processes may do so at once."""
        with connection.transaction():
            for statement in _CREATE:
                connection.execute(statement)

    def accept(self, connection: Connection[object], event: ConsumedEvent) -> bool:
        """Whether to apply the event now: True once per event, and only where nothing newer was applied.

        The answer holds if this transaction commits, and is forgotten if it does not. A second consumer of
        the same aggregate waits for its end. Raises `RuntimeError` outside of a transaction.
        """
        _inside(connection.autocommit, connection.info.transaction_status)
        found = None
        with connection.cursor(row_factory=tuple_row) as cursor:
            for statement, parameters in _accept(self._name, event):
                cursor.execute(statement, parameters)
            found = cursor.fetchone()
        return found is not None

    def accept_each(
        self, connection: Connection[object], events: Sequence[ConsumedEvent]
    ) -> list[ConsumedEvent]:
        """Those of several events that are to be applied now, in the order given.

        Locks are taken in the order of the aggregates, so that consumers of several at once do not deadlock.
        """
        taken = {position for position in _by_aggregate(events) if self.accept(connection, events[position])}
        return [event for position, event in enumerate(events) if position in taken]

    def prune(self, connection: Connection[object], keep: timedelta = KEEP) -> int:
        """Forget the ids of old notes (`superseded`); how many. Repeated ones are still refused.

        What is forgotten is known by its aggregate's revision from then on: a note that had never come is
        refused too, if it comes `keep` after one of the same or a later revision. Run it once a day.
        """
        _inside(connection.autocommit, connection.info.transaction_status)
        mark, delete = _PRUNE
        connection.execute(mark, {"inbox": self._name, "keep": keep})
        return connection.execute(delete, {"inbox": self._name, "keep": keep}).rowcount


class AsyncInbox:
    """`Inbox` for asyncio."""

    def __init__(self, name: str = "assay") -> None:
        self._name = name

    @staticmethod
    async def create_table(connection: AsyncConnection[object]) -> None:
        """Make the tables where they are missing. Any number of processes may do so at once."""
        async with connection.transaction():
            for statement in _CREATE:
                await connection.execute(statement)

    async def accept(self, connection: AsyncConnection[object], event: ConsumedEvent) -> bool:
        """Whether to apply the event now, see `Inbox.accept`."""
        _inside(connection.autocommit, connection.info.transaction_status)
        async with connection.cursor(row_factory=tuple_row) as cursor:
            for statement, parameters in _accept(self._name, event):
                await cursor.execute(statement, parameters)
            return await cursor.fetchone() is not None

    async def accept_each(
        self, connection: AsyncConnection[object], events: Sequence[ConsumedEvent]
    ) -> list[ConsumedEvent]:
        """Those of several events that are to be applied now, see `Inbox.accept_each`."""
        taken = set()
        for position in _by_aggregate(events):
            if await self.accept(connection, events[position]):
                taken.add(position)
        return [event for position, event in enumerate(events) if position in taken]

    async def prune(self, connection: AsyncConnection[object], keep: timedelta = KEEP) -> int:
        """Forget the ids of old notes, see `Inbox.prune`."""
        _inside(connection.autocommit, connection.info.transaction_status)
        mark, delete = _PRUNE
        await connection.execute(mark, {"inbox": self._name, "keep": keep})
        return (await connection.execute(delete, {"inbox": self._name, "keep": keep})).rowcount


def _accept(name: str, event: ConsumedEvent) -> list[_Statement]:
    """The statements that decide, the last one with a row for True."""
    parameters = {
        "inbox": name,
        "aggregate_kind": event.aggregate_kind,
        "aggregate_id": event.aggregate_id,
        "epoch": event.epoch,
        "revision": event.revision,
        "event_id": event.event_id,
    }
    return [(statement, parameters) for statement in (_NOTE if event.is_note else (_ACCEPT,))]


def _by_aggregate(events: Sequence[ConsumedEvent]) -> Iterable[int]:
    return sorted(
        range(len(events)), key=lambda each: (events[each].aggregate_kind, events[each].aggregate_id)
    )


def _inside(autocommit: bool, status: TransactionStatus) -> None:
    """An answer that outlives its effect, or the other way round, is what this helper exists to prevent."""
    if autocommit and status == TransactionStatus.IDLE:
        raise RuntimeError(
            "Call it inside the transaction that applies the event: with connection.transaction()."
        )
