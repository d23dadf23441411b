"""The publisher's loop on a real database: outages, refusals, gaps, one busy bucket, a stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from outbox_people import SINK, KeepingSink, first_deliveries, tell_results
from stores import Bench, open_bench

from assay.adapters.postgres.outbox_acts import OutboxActs
from assay.adapters.postgres.outbox_store import OutboxStore
from assay.adapters.postgres.session import make_pool
from assay.domain.outbox import Answer, Delivered, OutboxEvent, Undelivered
from assay.pipeline.publisher import Publisher
from assay.pipeline.publisher_limits import PublisherLimits
from assay.pipeline.publisher_progress import PublishProgress
from assay.ports import EventSink, SinkUnavailable

QUICK = PublisherLimits(batch=50, lease_seconds=10, first_pause=0.01, longest_pause=0.05, poll_seconds=0.02)


class AwaySink(KeepingSink):
    """Does not answer the first `outage` times."""

    def __init__(self, outage: int) -> None:
        super().__init__()
        self.outage = outage

    async def publish(self, events: Any) -> list[Answer]:
        if self.outage:
            self.outage -= 1
            raise SinkUnavailable("no_connection")
        return await super().publish(events)


@asynccontextmanager
async def publishing(
    url: str, sink: EventSink, limits: PublisherLimits = QUICK, clock: Callable[[], float] | None = None
) -> AsyncIterator[tuple[Publisher, PublishProgress]]:
    pool = make_pool(url, size=2)
    await pool.open()
    progress = PublishProgress()
    store = OutboxStore(pool, publisher="a", sink=SINK, lease_seconds=limits.lease_seconds)
    publisher = Publisher(
        store, sink, limits, progress, clock=clock or asyncio.get_running_loop().time, chance=lambda: 0.5,
        probe=lambda _: None,
    )  # fmt: skip
    try:
        yield publisher, progress
    finally:
        await pool.close()


@pytest.fixture
def bench(db_url: str) -> Any:
    with open_bench(db_url) as opened:
        yield opened


async def test_once_empties_the_outbox_and_gives_its_buckets_back(bench: Bench) -> None:
    for revision in (1, 2, 3):
        tell_results(bench.db, [f"r{n}" for n in range(60)], revision)
    sink = KeepingSink()
    async with publishing(bench.url, sink) as (publisher, progress):
        assert await publisher.run(once=True)
    assert (progress.published, progress.backlog, len(sink.got)) == (180, 0, 180)
    order = first_deliveries([(e.event_id, e.key, e.revision) for e in sink.got])
    assert set(map(tuple, order.values())) == {(1, 2, 3)}
    assert bench.one("SELECT count(*) FROM assay.outbox_buckets WHERE owner IS NOT NULL") == 0


async def test_once_ends_while_new_events_come(bench: Bench) -> None:
    tell_results(bench.db, ["old"])

    def answer(event: OutboxEvent) -> Answer:
        tell_results(bench.db, [event.key], event.revision + 1)
        return Delivered()

    async with publishing(bench.url, KeepingSink(answer)) as (publisher, progress):
        async with asyncio.timeout(30):
            assert await publisher.run(once=True)
    assert progress.published >= 1


async def test_an_outage_of_the_sink_is_waited_out(bench: Bench) -> None:
    tell_results(bench.db, ["x"])
    sink = AwaySink(outage=4)
    async with publishing(bench.url, sink) as (publisher, progress):
        assert await publisher.run(once=True)
    assert (progress.published, progress.trouble, len(sink.got)) == (1, None, 1)


async def test_a_sink_that_only_times_out_is_an_outage(bench: Bench) -> None:
    tell_results(bench.db, ["x"])
    answers: Iterator[Answer] = iter([Undelivered("timed_out"), Undelivered("timed_out"), Delivered("1")])
    async with publishing(bench.url, KeepingSink(lambda _: next(answers))) as (publisher, progress):
        assert await publisher.run(once=True)
    assert progress.published == 1
    assert OutboxActs(bench.url).blocked() == []


async def test_a_refused_event_stops_its_aggregate_alone(bench: Bench) -> None:
    for revision in (1, 2):
        tell_results(bench.db, ["bad", "good"], revision)

    def answer(event: OutboxEvent) -> Answer:
        return Undelivered("message_too_large", poison=True) if event.key == "bad" else Delivered()

    sink = KeepingSink(answer)
    async with publishing(bench.url, sink) as (publisher, progress):
        assert await publisher.run(once=True)
    assert [(e.key, e.revision) for e in sink.got] == [("good", 1), ("good", 2)]
    (blocked,) = OutboxActs(bench.url).blocked()
    assert (blocked.revision, blocked.behind, progress.blocked) == (1, 1, 1)


async def test_a_sink_that_leaves_a_gap_is_not_believed(bench: Bench) -> None:
    """It says that the second event arrived and the first did not: both are sent again."""
    for revision in (1, 2):
        tell_results(bench.db, ["x"], revision)
    first: Iterator[Answer] = iter([Undelivered("timed_out"), Delivered("0"), Delivered("1"), Delivered("2")])
    sink = KeepingSink(lambda _: next(first))
    async with publishing(bench.url, sink) as (publisher, progress):
        assert await publisher.run(once=True)
    assert progress.published == 2
    assert [e.revision for e in sink.got] == [2, 1, 2]


async def test_one_busy_aggregate_gets_whole_batches(bench: Bench) -> None:
    for revision in range(1, 301):
        tell_results(bench.db, ["busy"], revision)
    sizes: list[int] = []

    class Counting(KeepingSink):
        async def publish(self, events: Any) -> list[Answer]:
            sizes.append(len(events))
            return await super().publish(events)

    async with publishing(bench.url, Counting()) as (publisher, _):
        assert await publisher.run(once=True)
    assert max(sizes) == QUICK.batch


async def test_a_stop_finishes_the_batch_in_flight(bench: Bench) -> None:
    tell_results(bench.db, [f"r{n}" for n in range(200)])
    reached, go_on = asyncio.Event(), asyncio.Event()

    class Slow(KeepingSink):
        async def publish(self, events: Any) -> list[Answer]:
            reached.set()
            await go_on.wait()
            return await super().publish(events)

    sink = Slow()
    async with publishing(bench.url, sink) as (publisher, progress):
        running = asyncio.create_task(publisher.run())
        await reached.wait()
        publisher.request_stop()
        go_on.set()
        assert not await running
    assert progress.published == len(sink.got) == QUICK.batch
    assert bench.one("SELECT count(*) FROM assay.outbox_events") == 150
    assert bench.one("SELECT count(*) FROM assay.outbox_publishers") == 0


async def test_a_publisher_waits_for_its_database(bench: Bench) -> None:
    """Its connections are cut under a batch: the receipts are written on others."""
    tell_results(bench.db, ["x", "y"])

    class Cutting(KeepingSink):
        async def publish(self, events: Any) -> list[Answer]:
            bench.db.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = 'assay' AND datname = current_database()"
            )
            return await super().publish(events)

    async with publishing(bench.url, Cutting()) as (publisher, progress):
        assert await publisher.run(once=True)
    assert progress.published == 2
    assert bench.one("SELECT count(*) FROM assay.outbox_receipts") == 2


async def test_a_lease_that_is_nearly_over_is_renewed_before_a_batch_is_sent(bench: Bench) -> None:
    """Turns come so seldom here that only the check before sending can have renewed it."""
    limits = PublisherLimits(batch=1, lease_seconds=6, turn_seconds=1000, poll_seconds=0.02)
    bench.stop_clock()
    now, left = [0.0], []

    class Slow(KeepingSink):
        async def publish(self, events: Any) -> list[Answer]:
            left.append(
                bench.one(
                    "SELECT extract(epoch FROM min(lease_until) - assay.assay_now())::float8 "
                    "FROM assay.outbox_buckets"
                )
            )
            bench.advance(2.0)
            now[0] += 2.0
            return await super().publish(events)

    tell_results(bench.db, ["x", "y", "z"])
    async with publishing(bench.url, Slow(), limits, clock=lambda: now[0]) as (publisher, progress):
        assert await publisher.run(once=True)
    assert progress.published == 3
    assert all(seconds > Slow.send_seconds for seconds in left)
