"""The outbox under load: plans with a backlog, and a table that does not grow with what passes through it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import psycopg
import pytest
from outbox_people import SINK, Desk, KeepingSink, desks
from stores import Bench, open_bench

from assay.adapters.postgres.outbox_floors import Floors
from assay.adapters.postgres.outbox_store import OutboxStore
from assay.adapters.postgres.queries import queries
from assay.adapters.postgres.session import make_pool
from assay.domain.outbox import Answer, Delivered, OutboxEvent
from assay.pipeline.publisher import Publisher
from assay.pipeline.publisher_limits import PublisherLimits
from assay.pipeline.publisher_progress import PublishProgress

BACKLOG: Final = 100_000
ROUNDS: Final = 10
EVENTS_A_ROUND: Final = 20_000
_MANY: Final = """
INSERT INTO assay.outbox_events
    (event_id, aggregate_kind, aggregate_id, kind, revision, task_id, payload, created_at)
SELECT md5(n::text)::uuid, 'result', 'line/r' || n, 'completed', 1, n,
       jsonb_build_object(
           'pipeline', 'line', 'pipeline_version', repeat('ab', 32), 'record_id', 'r' || n,
           'input_version', 1, 'revision', 1, 'state', 'auto_candidate',
           'label', '{"category": "billing"}'::jsonb, 'error_code', NULL, 'review_reason', NULL),
       assay.assay_now()
FROM generate_series(%(first)s::int, %(last)s::int) AS n
"""


@pytest.fixture
def bench(db_url: str) -> Iterator[Bench]:
    with open_bench(db_url) as opened:
        yield opened


def add(bench: Bench, first: int, count: int) -> None:
    bench.db.execute(_MANY, {"first": first, "last": first + count - 1})


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from nodes(inner)


def plan_of(bench: Bench, name: str, terms: dict[str, Any]) -> dict[str, Any]:
    """The plan of a statement of the outbox, run in a transaction that is rolled back."""
    with psycopg.connect(bench.url, options="-c plan_cache_mode=force_custom_plan") as db:
        statement = ("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + queries("outbox")[name]).encode()
        found = db.execute(statement, terms).fetchone()
        db.rollback()
    assert found is not None
    plan: dict[str, Any] = found[0][0]["Plan"]
    return plan


def reads(plan: dict[str, Any]) -> list[str]:
    """How the table of events is reached."""
    return [node["Node Type"] for node in nodes(plan) if node.get("Relation Name") == "outbox_events"]


def check_plans(bench: Bench, desk: Desk) -> None:
    me = {"publisher": desk.name}
    read = plan_of(bench, "outbox_read", me | {"most": 1000, "most_each": 32} | Floors().terms())
    assert set(reads(read)) == {"Index Scan"}
    rows = max(node["Actual Rows"] * node["Actual Loops"] for node in nodes(read)
               if node.get("Relation Name") == "outbox_events")  # fmt: skip
    assert rows <= 64 * 33
    batch = desk.run(lambda s: s.read(1000, 32))
    leases = {waiting.bucket: waiting.lease_revision for waiting in batch}
    terms = me | {
        "sink": SINK, "buckets": [w.bucket for w in batch], "outbox_ids": [w.event.outbox_id for w in batch],
        "positions": [None for _ in batch], "held_buckets": list(leases),
        "held_revisions": list(leases.values()),
    }  # fmt: skip
    assert "Seq Scan" not in reads(plan_of(bench, "outbox_record", terms))


def test_batches_are_read_and_deleted_by_index(bench: Bench) -> None:
    add(bench, 1, BACKLOG)
    with desks(bench.url, "a") as (desk,):
        desk.run(lambda s: s.share())
        desk.run(lambda s: s.make_partitions())
        check_plans(bench, desk)  # before any statistics
        bench.db.execute("ANALYZE assay.outbox_events")
        check_plans(bench, desk)


@pytest.mark.scale
@pytest.mark.timeout(600)
def test_a_backlog_of_a_million_is_read_by_index(bench: Bench) -> None:
    add(bench, 1, 1_000_000)
    bench.db.execute("VACUUM (ANALYZE) assay.outbox_events")
    with desks(bench.url, "a") as (desk,):
        desk.run(lambda s: s.share())
        desk.run(lambda s: s.make_partitions())
        check_plans(bench, desk)
        began = time.monotonic()
        desk.run(lambda s: s.read(1000, 32))
        print(f"a batch of 1000 of a million: {(time.monotonic() - began) * 1000:.1f} ms")


async def drain(url: str) -> float:
    """Events per second of one publisher with a sink that takes everything at once."""
    pool = make_pool(url, size=2)
    await pool.open()
    loop = asyncio.get_running_loop()
    progress = PublishProgress()
    publisher = Publisher(
        OutboxStore(pool, publisher="a", sink=SINK, lease_seconds=30), KeepingSink(), PublisherLimits(),
        progress, clock=loop.time, chance=lambda: 0.5, probe=lambda _: None,
    )  # fmt: skip
    began = loop.time()
    try:
        assert await publisher.run(once=True)
    finally:
        await pool.close()
    return progress.published / (loop.time() - began)


@pytest.mark.scale
@pytest.mark.timeout(600)
def test_the_outbox_does_not_grow_with_what_passes_through_it(bench: Bench) -> None:
    """200,000 events in rounds; the launcher of autovacuum looks about once a second here, as it does once a
    minute with PostgreSQL's own settings."""
    bench.db.execute("ALTER SYSTEM SET autovacuum_naptime = '1s'")
    bench.db.execute("SELECT pg_reload_conf()")
    vacuums = "SELECT autovacuum_count FROM pg_stat_user_tables WHERE relname = 'outbox_events'"
    peaks, rates = [], []
    for number in range(ROUNDS):
        add(bench, 1 + number * EVENTS_A_ROUND, EVENTS_A_ROUND)
        rates += [asyncio.run(drain(bench.url))]
        peaks += [bench.one("SELECT pg_total_relation_size('assay.outbox_events')")]
        done, deadline = bench.one(vacuums), time.monotonic() + 60
        while bench.one(vacuums) == done:
            assert time.monotonic() < deadline
            bench.db.execute("SELECT pg_stat_clear_snapshot()")
    print(
        json.dumps(
            {"megabytes": [round(peak / 1e6, 1) for peak in peaks], "events/s": list(map(round, rates))}
        )
    )
    assert max(peaks) < 1.5 * peaks[0]
    assert bench.one("SELECT count(*) FROM assay.outbox_receipts") == ROUNDS * EVENTS_A_ROUND


class FeedingSink(KeepingSink):
    """Takes everything at once; when a round is through it adds the next one, and notes the rate."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self.rates: list[float] = []
        self.done: Callable[[], None]
        self._bench = bench
        self._taken, self._began = 0, time.monotonic()

    async def publish(self, events: Sequence[OutboxEvent]) -> list[Answer]:
        self._taken += len(events)
        if self._taken % EVENTS_A_ROUND == 0:
            self.rates.append(EVENTS_A_ROUND / (time.monotonic() - self._began))
            if len(self.rates) == ROUNDS:
                self.done()
            else:
                add(self._bench, 1 + self._taken, EVENTS_A_ROUND)
            self._began = time.monotonic()
        return [Delivered()] * len(events)


async def feed(bench: Bench) -> list[float]:
    """Rates of rounds that one publisher publishes."""
    pool = make_pool(bench.url, size=2)
    await pool.open()
    loop = asyncio.get_running_loop()
    sink = FeedingSink(bench)
    publisher = Publisher(
        OutboxStore(pool, publisher="a", sink=SINK, lease_seconds=30), sink, PublisherLimits(),
        PublishProgress(), clock=loop.time, chance=lambda: 0.5, probe=lambda _: None,
    )  # fmt: skip
    sink.done = publisher.request_stop
    try:
        await publisher.run()
    finally:
        await pool.close()
    return sink.rates


@pytest.mark.scale
@pytest.mark.timeout(600)
def test_a_held_snapshot_slows_nothing_down(bench: Bench) -> None:
    """Deleted rows stay while a backup looks at them; reads begin above them."""
    with psycopg.connect(bench.url) as backup:
        backup.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        backup.execute("SELECT count(*) FROM assay.outbox_events")
        add(bench, 1, EVENTS_A_ROUND)
        rates = asyncio.run(feed(bench))
    print(json.dumps({"events/s": [round(rate) for rate in rates]}))
    assert min(rates[-3:]) > max(rates) / 4
