"""Publishers against a model: they stop anywhere, lose their leases, wake up, and send what they had read.

A publisher here checks no clock before it sends, as one does that is stopped between check and send. What a
consumer sees for the first time must still be in order for each aggregate, and nothing may be lost.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import partial
from uuid import UUID

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from outbox_people import LEASE, Desk, desks, first_deliveries, tell_results
from stores import Bench, open_bench

from assay.adapters.postgres.outbox_store import OutboxStore
from assay.domain.outbox import BUCKETS, Waiting, waves

PUBLISHERS = ("a", "b", "c")
RECORDS = tuple("rstu")
some_publisher = st.sampled_from(PUBLISHERS)


class Publishing(RuleBasedStateMachine):
    """`got` is what a consumer sees, one event at a time and from all publishers in turn."""

    bench: Bench
    desks: dict[str, Desk]
    seen: Counter[str]

    @initialize()
    def begin(self) -> None:
        self.bench.db.execute("DELETE FROM assay.outbox_events; DELETE FROM assay.outbox_receipts")
        self.bench.db.execute("DELETE FROM assay.outbox_publishers; DELETE FROM assay.outbox_failures")
        self.bench.db.execute("UPDATE assay.outbox_buckets SET owner = NULL, lease_until = NULL")
        self.revisions: dict[str, int] = defaultdict(int)
        self.got: list[tuple[UUID, str, int]] = []
        self.told: set[UUID] = set()
        self.in_hand: dict[str, list[Waiting]] = {name: [] for name in PUBLISHERS}
        self.sent: dict[str, list[Waiting]] = {name: [] for name in PUBLISHERS}
        for _ in range(2):
            self.happen(list(RECORDS))

    @rule(records=st.lists(st.sampled_from(RECORDS), min_size=1, max_size=4, unique=True))
    def happen(self, records: list[str]) -> None:
        for record in records:
            self.revisions[record] += 1
            tell_results(self.bench.db, [record], self.revisions[record])
        self.told.update(row[0] for row in self.bench.rows("SELECT event_id FROM assay.outbox_events"))

    @rule(name=some_publisher, most=st.integers(1, 6), turn=st.booleans())
    def read(self, name: str, most: int, turn: bool) -> None:
        if turn:
            held, share = self.desks[name].run(lambda s: s.share())
            assert len(held) <= share
        if not self.in_hand[name]:
            self.in_hand[name] = self.desks[name].run(lambda s: s.read(most, most))

    @precondition(lambda self: any(self.in_hand.values()))
    @rule(data=st.data(), count=st.integers(1, 4))
    def send(self, data: st.DataObject, count: int) -> None:
        """Some of what is in hand, in waves, whether or not the lease still holds."""
        name = self._one_with(self.in_hand, data)
        batch = self.in_hand[name]
        order = [batch[place] for wave in waves([each.event for each in batch]) for place in wave]
        for waiting in order[len(self.sent[name]) :][:count]:
            event = waiting.event
            self.seen["sent again"] += any(event.event_id == known for known, _, _ in self.got)
            self.got.append((event.event_id, event.key, event.revision))
            self.sent[name].append(waiting)

    @precondition(lambda self: any(self.sent.values()))
    @rule(data=st.data())
    def record(self, data: st.DataObject) -> None:
        name = self._one_with(self.sent, data)
        delivered: list[tuple[Waiting, str | None]] = [(each, None) for each in self.sent[name]]
        held = self.desks[name].run(lambda s: s.record(delivered))
        self.seen["fenced"] += any(each.bucket not in held for each, _ in delivered)
        self._forget(name)

    @precondition(lambda self: any(self.in_hand.values()))
    @rule(data=st.data(), politely=st.booleans())
    def stop(self, data: st.DataObject, politely: bool) -> None:
        """Killed between sending and receipts, or ended: only then are its leases given back."""
        name = self._one_with(self.in_hand, data)
        self._forget(name)
        if politely:
            self.desks[name].run(lambda s: s.leave())

    @rule(seconds=st.sampled_from([1.0, LEASE / 2, LEASE + 1]))
    def pass_time(self, seconds: float) -> None:
        self.bench.advance(seconds)

    def _one_with(self, hands: dict[str, list[Waiting]], data: st.DataObject) -> str:
        return data.draw(st.sampled_from([name for name in PUBLISHERS if hands[name]]))

    def _forget(self, name: str) -> None:
        self.in_hand[name], self.sent[name] = [], []

    @invariant()
    def first_deliveries_are_in_order(self) -> None:
        for revisions in first_deliveries(self.got).values():
            assert revisions == list(range(1, len(revisions) + 1)), "out of order"

    @invariant()
    def receipts_are_of_what_was_sent(self) -> None:
        seen = {event_id for event_id, _, _ in self.got}
        receipts = [row[0] for row in self.bench.rows("SELECT event_id FROM assay.outbox_receipts")]
        assert len(receipts) == len(set(receipts))
        assert seen >= set(receipts)

    def teardown(self) -> None:
        """One that lives goes on until nothing is left: everything was seen, and has its receipt."""
        self.bench.advance(LEASE + 1)
        desk = self.desks["a"]
        assert len(desk.run(lambda s: s.share())[0]) == BUCKETS
        while batch := desk.run(lambda s: s.read(100, 100)):
            self.got.extend((w.event.event_id, w.event.key, w.event.revision) for w in batch)
            delivered: list[tuple[Waiting, str | None]] = [(each, None) for each in batch]
            desk.run(partial(OutboxStore.record, delivered=delivered))
        self.first_deliveries_are_in_order()
        receipts = {row[0] for row in self.bench.rows("SELECT event_id FROM assay.outbox_receipts")}
        assert receipts == self.told == {event_id for event_id, _, _ in self.got}


class SkippingLocked(Publishing):
    """The negative control: publishers without buckets, each reading what no other one has in hand."""

    @rule(name=some_publisher, most=st.integers(1, 6), turn=st.booleans())
    def read(self, name: str, most: int, turn: bool) -> None:
        owned = "UPDATE assay.outbox_buckets SET owner = %s, lease_until = 'infinity'"
        self.bench.db.execute(owned, (name,))
        held = {w.event.event_id for other in PUBLISHERS if other != name for w in self.in_hand[other]}
        batch = self.desks[name].run(lambda s: s.read(100, 100))
        self.bench.db.execute("UPDATE assay.outbox_buckets SET owner = NULL, lease_until = NULL")
        if not self.in_hand[name]:
            self.in_hand[name] = [each for each in batch if each.event.event_id not in held][:most]


def _explore(url: str, machine: type[Publishing]) -> Counter[str]:
    seen: Counter[str] = Counter()
    with open_bench(url) as bench, desks(url, *PUBLISHERS) as publishers:
        bench.stop_clock()
        terms = {"bench": bench, "seen": seen, "desks": dict(zip(PUBLISHERS, publishers, strict=True))}
        chosen = settings(
            max_examples=100, stateful_step_count=40, deadline=None, derandomize=True, database=None,
            phases=[Phase.generate], suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        run_state_machine_as_test(type("Machine", (machine,), terms), settings=chosen)
    return seen


def test_publishers_keep_the_order_and_lose_nothing(db_url: str) -> None:
    seen = _explore(db_url, Publishing)
    assert seen["fenced"] > 0  # the histories went where it matters
    assert seen["sent again"] > 10


def test_publishers_without_buckets_are_found_out(db_url: str) -> None:
    with pytest.raises(AssertionError, match="out of order"):
        _explore(db_url, SkippingLocked)
