"""The outbox in a real database: order, late commits, fences, shares, refused events, receipts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import psycopg
import pytest
from outbox_people import LEASE, Desk, desks, tell_results
from stores import Bench, open_bench

from assay.adapters.postgres.audit_store import AuditStore
from assay.adapters.postgres.outbox_acts import OutboxActs
from assay.domain.failures import AssayError, ConfigurationError
from assay.domain.outbox import BUCKETS, Waiting


@pytest.fixture
def bench(db_url: str) -> Iterator[Bench]:
    with open_bench(db_url) as opened:
        opened.stop_clock()
        yield opened


@pytest.fixture
def desk(bench: Bench) -> Iterator[Desk]:
    with desks(bench.url, "a") as (only,):
        assert only.run(lambda s: s.share()) == (frozenset(range(BUCKETS)), BUCKETS)
        yield only


def names(batch: list[Waiting]) -> list[tuple[str, int]]:
    return [(each.event.key, each.event.revision) for each in batch]


def deliver(desk: Desk, batch: list[Waiting]) -> frozenset[int]:
    return desk.run(lambda s: s.record([(each, f"0/{each.event.outbox_id}") for each in batch]))


def test_events_are_read_in_order_and_leave_receipts(bench: Bench, desk: Desk) -> None:
    tell_results(bench.db, ["x", "y"])
    tell_results(bench.db, ["x"], revision=2)
    batch = desk.run(lambda s: s.read(10, 10))
    assert names(batch) == [("x", 1), ("y", 1), ("x", 2)]
    assert batch[0].event.payload["label"]["confidence"].as_tuple().digits == (9, 0)  # 0.90, not 0.9
    deliver(desk, batch)
    assert desk.run(lambda s: s.read(10, 10)) == []
    receipts = bench.rows(
        "SELECT aggregate_id, revision, sink, position FROM assay.outbox_receipts ORDER BY outbox_id"
    )
    assert [row[:3] for row in receipts] == [
        ("line/x", 1, "test:sink"), ("line/y", 1, "test:sink"), ("line/x", 2, "test:sink")
    ]  # fmt: skip
    assert receipts[0][3] == f"0/{batch[0].event.outbox_id}"
    assert deliver(desk, batch)  # a second time changes nothing
    assert bench.one("SELECT count(*) FROM assay.outbox_receipts") == 3


def test_an_event_that_commits_late_is_read_where_a_cursor_loses_it(bench: Bench, desk: Desk) -> None:
    """The negative control: `id > last seen` passes the row by for ever."""
    with psycopg.connect(bench.url) as slow:
        tell_results(slow, ["late"])
        tell_results(bench.db, ["early"])
        first = desk.run(lambda s: s.read(10, 10))
        assert names(first) == [("early", 1)]
        cursor = max(each.event.outbox_id for each in first)
        deliver(desk, first)
        slow.commit()
    assert bench.rows("SELECT outbox_id FROM assay.outbox_events WHERE outbox_id > %s", cursor) == []
    assert names(desk.run(lambda s: s.read(10, 10))) == [("late", 1)]


def test_floors_wait_for_what_is_still_under_way(bench: Bench, desk: Desk) -> None:
    """Reads begin ever higher; an event whose transaction was open all the while is read nevertheless."""
    with psycopg.connect(bench.url) as slow:
        tell_results(slow, ["late"])
        for number in range(5):
            tell_results(bench.db, [f"r{number}-{n}" for n in range(100)])
            deliver(desk, desk.run(lambda s: s.read(1000, 1000)))
        slow.commit()
    assert names(desk.run(lambda s: s.read(10, 10))) == [("late", 1)]


def test_a_held_snapshot_loses_and_repeats_nothing(bench: Bench, desk: Desk) -> None:
    with psycopg.connect(bench.url) as backup:
        backup.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        backup.execute("SELECT count(*) FROM assay.outbox_events")
        got: list[tuple[str, int]] = []
        for number in range(5):
            tell_results(bench.db, [f"r{number}-{n}" for n in range(20)])
            batch = desk.run(lambda s: s.read(1000, 1000))
            got += names(batch)
            deliver(desk, batch)
        assert Counter(got).most_common(1)[0][1] == 1
        assert len(got) == 100
        assert backup.execute("SELECT count(*) FROM assay.outbox_events").fetchone() == (0,)


def test_a_few_buckets_do_not_take_the_batch_of_others(bench: Bench, desk: Desk) -> None:
    for revision in range(1, 41):
        tell_results(bench.db, ["busy"], revision)
    tell_results(bench.db, [f"quiet-{n}" for n in range(10)])
    batch = desk.run(lambda s: s.read(100, 5))
    kept = Counter(each.event.key for each in batch)
    assert kept["busy"] <= 5
    assert [r for key, r in names(batch) if key == "busy"] == list(range(1, kept["busy"] + 1))


def test_a_bucket_that_changed_hands_is_left_to_its_new_owner(bench: Bench) -> None:
    with desks(bench.url, "zombie", "heir") as (zombie, heir):
        zombie.run(lambda s: s.share())
        tell_results(bench.db, ["x"])
        read = zombie.run(lambda s: s.read(10, 10))
        bench.advance(LEASE + 1)
        assert heir.run(lambda s: s.share()) == (frozenset(range(BUCKETS)), BUCKETS)
        assert deliver(zombie, read) == frozenset()
        zombie.run(lambda s: s.refuse([(read[0], "message_too_large", 30.0)]))
        assert bench.one("SELECT count(*) FROM assay.outbox_failures") == 0
        assert zombie.run(lambda s: s.read(10, 10)) == []
        (again,) = heir.run(lambda s: s.read(10, 10))
        assert again.event.event_id == read[0].event.event_id
        assert deliver(heir, [again]) == {again.bucket}
        assert bench.one("SELECT count(*) FROM assay.outbox_receipts") == 1


def test_a_lease_that_nobody_took_is_still_its_owners(bench: Bench, desk: Desk) -> None:
    tell_results(bench.db, ["x"])
    read = desk.run(lambda s: s.read(10, 10))
    bench.advance(LEASE + 1)
    assert desk.run(lambda s: s.read(10, 10)) == []  # not without a turn
    assert deliver(desk, read) == {read[0].bucket}
    held, _ = desk.run(lambda s: s.share())
    assert len(held) == BUCKETS


def test_shares_are_fair_and_follow_who_lives(bench: Bench) -> None:
    with desks(bench.url, "a", "b", "c") as publishers:
        a, b, c = publishers
        assert len(a.run(lambda s: s.share())[0]) == 64
        assert b.run(lambda s: s.share()) == (frozenset(), 32)
        assert len(a.run(lambda s: s.share())[0]) == 32
        assert len(b.run(lambda s: s.share())[0]) == 32
        for _ in range(3):
            sizes = [len(p.run(lambda s: s.share())[0]) for p in publishers]
        assert sorted(sizes) == [21, 21, 22]
        owners = bench.rows("SELECT owner, count(*) FROM assay.outbox_buckets GROUP BY owner")
        assert sorted(count for _, count in owners) == [21, 21, 22]
        c.run(lambda s: s.leave())
        for _ in range(2):
            sizes = [len(p.run(lambda s: s.share())[0]) for p in (a, b)]
        assert sizes == [32, 32]
        bench.advance(LEASE * 0.9)
        a.run(lambda s: s.share())
        bench.advance(LEASE * 0.9)  # b is gone by now
        assert len(a.run(lambda s: s.share())[0]) == 64


def test_leases_with_most_of_their_time_left_are_not_written_again(bench: Bench, desk: Desk) -> None:
    before = bench.rows("SELECT bucket, xmin FROM assay.outbox_buckets ORDER BY 1")
    desk.run(lambda s: s.share())
    assert bench.rows("SELECT bucket, xmin FROM assay.outbox_buckets ORDER BY 1") == before
    bench.advance(LEASE / 2)
    desk.run(lambda s: s.share())
    until = bench.one("SELECT min(lease_until) - assay.assay_now() FROM assay.outbox_buckets")
    assert until.total_seconds() == LEASE


def test_publishers_send_to_one_place(bench: Bench, desk: Desk) -> None:
    other = Desk(bench.url, "b", sink="kafka:elsewhere")
    try:
        with pytest.raises(ConfigurationError, match="sends this outbox to test:sink"):
            other.run(lambda s: s.share())
        desk.run(lambda s: s.leave())
        assert len(other.run(lambda s: s.share())[0]) == 64
    finally:
        other.close()


def test_a_refused_event_holds_back_its_aggregate_alone(bench: Bench, desk: Desk) -> None:
    tell_results(bench.db, ["bad", "good"])
    tell_results(bench.db, ["bad"], revision=2)
    batch = desk.run(lambda s: s.read(10, 10))
    desk.run(lambda s: s.refuse([(batch[0], "message_too_large", 30.0)]))
    assert names(desk.run(lambda s: s.read(10, 10))) == [("good", 1)]
    (blocked,) = OutboxActs(bench.url).blocked()
    assert (blocked.kind, blocked.reason, blocked.tries, blocked.behind) == (
        "completed", "message_too_large", 1, 1
    )  # fmt: skip
    bench.advance(31)
    desk.run(lambda s: s.share())
    batch = desk.run(lambda s: s.read(10, 10))
    assert names(batch) == [("bad", 1), ("good", 1), ("bad", 2)]
    assert batch[0].tries == 1
    desk.run(lambda s: s.refuse([(batch[0], "message_too_large", 30.0)]))
    assert OutboxActs(bench.url).blocked()[0].tries == 2
    bench.advance(31)
    desk.run(lambda s: s.share())
    deliver(desk, desk.run(lambda s: s.read(10, 10)))  # it goes through after all
    assert OutboxActs(bench.url).blocked() == []
    assert bench.one("SELECT count(*) FROM assay.outbox_receipts") == 3


def test_a_parked_event_is_kept_whole_and_its_aggregate_goes_on(bench: Bench, desk: Desk) -> None:
    acts = OutboxActs(bench.url)
    tell_results(bench.db, ["bad"])
    tell_results(bench.db, ["bad"], revision=2)
    (first, _) = desk.run(lambda s: s.read(10, 10))
    event_id = first.event.event_id
    assert not acts.park(event_id, reason="not refused", actor="me")
    desk.run(lambda s: s.refuse([(first, "message_too_large", 30.0)]))
    assert acts.park(event_id, reason="consumer has it by mail", actor="me")
    assert not acts.park(event_id, reason="again", actor="me")
    assert names(desk.run(lambda s: s.read(10, 10))) == [("bad", 2)]
    ((parked_by, reason, failure, record),) = bench.rows(
        "SELECT parked_by, reason, failure, payload ->> 'record_id' FROM assay.outbox_parked"
    )
    assert (parked_by, reason, failure, record) == (
        "me", "consumer has it by mail", "message_too_large", "bad"
    )  # fmt: skip
    assert bench.one("SELECT place FROM assay.known_events WHERE event_id = %s", event_id) == "parked"
    with pytest.raises(psycopg.DatabaseError, match="not allowed"):
        bench.db.execute("DELETE FROM assay.outbox_parked")


def test_receipts_go_by_whole_days_and_the_horizon_with_them(bench: Bench, desk: Desk) -> None:
    acts = OutboxActs(bench.url)
    for day in range(3):
        tell_results(bench.db, [f"day-{day}"])
        deliver(desk, desk.run(lambda s: s.read(10, 10)))
        bench.advance(86_400)
        desk.run(lambda s: s.share())
    assert acts.drop_receipts(older_than_days=1, actor="me") == 2
    left = bench.rows("SELECT aggregate_id FROM assay.outbox_receipts")
    assert left == [("line/day-2",)]
    assert bench.one(
        "SELECT forgotten_before = date_trunc('day', assay.assay_now() - interval '1 day', 'UTC') "
        "FROM assay.outbox_horizon"
    )
    assert acts.drop_receipts(older_than_days=1, actor="me") == 0


def test_receipts_that_are_being_read_are_not_waited_for(bench: Bench, desk: Desk) -> None:
    tell_results(bench.db, ["x"])
    deliver(desk, desk.run(lambda s: s.read(10, 10)))
    bench.advance(5 * 86_400)
    with psycopg.connect(bench.url) as audit:
        audit.execute("SELECT count(*) FROM assay.outbox_receipts")
        with pytest.raises(AssayError, match="being read"):
            OutboxActs(bench.url).drop_receipts(older_than_days=1, actor="me")
    assert OutboxActs(bench.url).drop_receipts(older_than_days=1, actor="me") >= 1


def test_a_clock_that_jumps_finds_its_partition(bench: Bench, desk: Desk) -> None:
    bench.advance(100 * 86_400)
    desk.run(lambda s: s.share())
    tell_results(bench.db, ["x"])
    deliver(desk, desk.run(lambda s: s.read(10, 10)))
    assert bench.one("SELECT count(*) FROM assay.outbox_receipts") == 1


def test_two_publishers_make_the_same_partitions(bench: Bench) -> None:
    with desks(bench.url, "a", "b") as (a, b):
        assert a.run(lambda s: s.make_partitions()) == 8
        assert b.run(lambda s: s.make_partitions()) == 0


def test_the_backlog_and_what_is_drained(bench: Bench, desk: Desk) -> None:
    tell_results(bench.db, ["x", "y"])
    bench.advance(60)
    backlog = desk.run(lambda s: s.backlog())
    assert (backlog.events, backlog.oldest_seconds, backlog.blocked) == (2, 60.0, 0)
    desk.run(lambda s: s.share())
    x, y = desk.run(lambda s: s.read(10, 10))
    deliver(desk, [x])
    desk.run(lambda s: s.refuse([(y, "message_too_large", 3600.0)]))
    bench.advance(1)
    tell_results(bench.db, ["later"])
    assert desk.run(lambda s: s.drained(backlog.at))
    assert not desk.run(lambda s: s.drained(backlog.at.replace(year=9999)))


def test_the_audit_knows_published_and_parked_events(bench: Bench, desk: Desk) -> None:
    """Nothing about the outbox is told as broken but the results that these events lack."""
    tell_results(bench.db, ["x"])
    deliver(desk, desk.run(lambda s: s.read(10, 10)))
    report = AuditStore(bench.url).audit()
    assert {finding.invariant for finding in report.broken} == {"event_tells_of_what_exists"}
    assert report.events == 1
