"""Events in a test database, publishers in threads of their own, a sink that keeps what it is given."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar
from uuid import UUID

import psycopg
from psycopg.rows import TupleRow
from stores import PATIENCE

from assay.adapters.postgres.outbox_store import OutboxStore
from assay.adapters.postgres.session import make_pool
from assay.domain.outbox import Answer, Delivered, OutboxEvent

LEASE: Final = 30.0
SINK: Final = "test:sink"
T = TypeVar("T")

# Revision `number` of results of the line `name`; the record of each is its own aggregate.
_TELL: Final = """
INSERT INTO assay.outbox_events
    (event_id, aggregate_kind, aggregate_id, kind, revision, payload, created_at)
SELECT assay.event_id('result', a.id, 'completed', %(revision)s::int, 0), 'result', a.id, 'completed',
       %(revision)s::int,
       jsonb_build_object(
           'pipeline', 'line', 'pipeline_version', repeat('ab', 32), 'record_id', substr(a.id, 6),
           'input_version', 1, 'revision', %(revision)s::int, 'state', 'auto_candidate',
           'label', jsonb_build_object('category', 'billing', 'confidence', 0.90)),
       assay.assay_now()
FROM unnest(%(ids)s::text[]) WITH ORDINALITY AS a (id, place)
ORDER BY a.place
"""


def tell_results(db: psycopg.Connection[TupleRow], records: Sequence[str], revision: int = 1) -> None:
    """Events of results in the outbox, one for each record, in the order given."""
    db.execute(_TELL, {"ids": [f"line/{record}" for record in records], "revision": revision})


class KeepingSink:
    """Keeps what is published, in order; `answer` says what it answers to an event, delivered by default."""

    name = SINK
    send_seconds = 2.0

    def __init__(self, answer: Callable[[OutboxEvent], Answer] | None = None) -> None:
        self.got: list[OutboxEvent] = []
        self._answer = answer

    async def publish(self, events: Sequence[OutboxEvent]) -> list[Answer]:
        answers: list[Answer] = []
        for event in events:
            answer = Delivered(str(len(self.got))) if self._answer is None else self._answer(event)
            if isinstance(answer, Delivered):
                self.got.append(event)
            answers.append(answer)
        return answers

    async def aclose(self) -> None:
        """Nothing to close."""


class Desk:
    """One publisher's store on a loop of its own, for one call at a time."""

    def __init__(self, url: str, name: str, *, sink: str = SINK, lease: float = LEASE) -> None:
        self._runner = asyncio.Runner()
        self._pool = make_pool(url, size=1)
        self.name = name
        looks = itertools.count(step=2)  # every read looks for floors first
        self.store = OutboxStore(
            self._pool, publisher=name, sink=sink, lease_seconds=lease, clock=lambda: float(next(looks))
        )
        self._runner.run(self._pool.open())

    def run(self, work: Callable[[OutboxStore], Awaitable[T]]) -> T:
        """Do something with the store."""

        async def within() -> T:
            async with asyncio.timeout(PATIENCE):
                return await work(self.store)

        return self._runner.run(within())

    def close(self) -> None:
        """End the connections."""
        self._runner.run(self._pool.close())
        self._runner.close()


@contextmanager
def desks(url: str, *names: str, lease: float = LEASE) -> Iterator[list[Desk]]:
    """Several publishers of one outbox."""
    opened: list[Desk] = []
    try:
        opened.extend(Desk(url, name, lease=lease) for name in names)
        yield opened
    finally:
        for desk in opened:
            desk.close()


def first_deliveries(got: Sequence[tuple[UUID, str, int]]) -> dict[str, list[int]]:
    """Revisions by aggregate in the order in which each event came for the first time."""
    seen: set[UUID] = set()
    order: dict[str, list[int]] = {}
    for event_id, aggregate, revision in got:
        if event_id not in seen:
            seen.add(event_id)
            order.setdefault(aggregate, []).append(revision)
    return order
