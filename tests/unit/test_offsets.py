"""The offset ledger against a model that remembers everything, and against a ledger that leapfrogs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from assay.domain.offsets import OffsetError, OffsetLedger

EPOCH = 7


class Model:
    """What the ledger must answer, from the whole history of one assignment."""

    def __init__(self) -> None:
        self.delivered: list[int] = []
        self.finished: set[int] = set()

    def deliver(self, offset: int) -> None:
        if offset not in self.delivered:
            self.delivered.append(offset)

    def unresolved(self) -> list[int]:
        return [offset for offset in self.delivered if offset not in self.finished]

    def committable(self) -> int | None:
        before = [o for o in self.delivered if not any(u <= o for u in self.unresolved())]
        return before[-1] + 1 if before else None


class HighestSeen(OffsetLedger):
    """The mistake the ledger exists to prevent: commits the highest done offset."""

    _seen: int | None = None

    def done(self, offset: int, epoch: int) -> bool:
        counted = super().done(offset, epoch)
        if counted:
            self._seen = max(offset + 1, self._seen or 0)
        return counted

    def committable(self) -> int | None:
        return self._seen


def agrees_with_model(ledger: OffsetLedger, gaps: list[int], order: list[int]) -> bool:
    """Delivers offsets with the gaps given, finishes them in the order given, compares at every step."""
    model = Model()
    offset = -1
    for gap in gaps:
        offset += gap
        ledger.deliver(offset)
        model.deliver(offset)
    for choice in order:
        if not model.delivered:
            break
        finished = model.delivered[choice % len(model.delivered)]
        ledger.done(finished, EPOCH)
        model.finished.add(finished)
        unresolved = model.unresolved()
        same = (ledger.committable(), ledger.pending, ledger.oldest_unresolved) == (
            model.committable(),
            len(unresolved),
            unresolved[0] if unresolved else None,
        )
        if not same:
            return False
    return True


gaps = st.lists(st.integers(1, 5), max_size=40)
orders = st.lists(st.integers(0, 10_000), max_size=80)


@given(gaps, orders)
def test_every_order_of_finishing_agrees_with_the_model(gaps: list[int], order: list[int]) -> None:
    assert agrees_with_model(OffsetLedger(EPOCH), gaps, order)


def test_a_ledger_that_commits_the_highest_seen_fails_the_same_comparison() -> None:
    assert agrees_with_model(OffsetLedger(EPOCH), [1, 1, 1], [2, 0])
    assert not agrees_with_model(HighestSeen(EPOCH), [1, 1, 1], [2, 0])


class LedgerMachine(RuleBasedStateMachine):
    """Any mixture of deliveries, duplicates, results in any order and results of other epochs."""

    ledger_class = OffsetLedger

    def __init__(self) -> None:
        super().__init__()
        self.ledger = self.ledger_class(EPOCH)
        self.model = Model()

    @rule(gap=st.integers(1, 4))
    def deliver(self, gap: int) -> None:
        offset = (self.model.delivered[-1] if self.model.delivered else 99) + gap
        assert self.ledger.deliver(offset)
        self.model.deliver(offset)

    @precondition(lambda self: bool(self.model.delivered))
    @rule(choice=st.integers(0, 1_000))
    def deliver_again(self, choice: int) -> None:
        assert not self.ledger.deliver(self.model.delivered[choice % len(self.model.delivered)])

    @precondition(lambda self: bool(self.model.unresolved()))
    @rule(choice=st.integers(0, 1_000))
    def finish(self, choice: int) -> None:
        unresolved = self.model.unresolved()
        offset = unresolved[choice % len(unresolved)]
        assert self.ledger.done(offset, EPOCH)
        self.model.finished.add(offset)

    @precondition(lambda self: bool(self.model.finished))
    @rule(choice=st.integers(0, 1_000))
    def finish_again(self, choice: int) -> None:
        finished = sorted(self.model.finished)
        assert not self.ledger.done(finished[choice % len(finished)], EPOCH)

    @precondition(lambda self: bool(self.model.delivered))
    @rule(choice=st.integers(0, 1_000), epoch=st.integers(0, 20).filter(lambda epoch: epoch != EPOCH))
    def finish_in_another_epoch(self, choice: int, epoch: int) -> None:
        assert not self.ledger.done(self.model.delivered[choice % len(self.model.delivered)], epoch)

    @rule()
    def finish_what_was_never_delivered(self) -> None:
        beyond = (self.model.delivered[-1] if self.model.delivered else 0) + 1
        with pytest.raises(OffsetError):
            self.ledger.done(beyond, EPOCH)

    @precondition(lambda self: bool(self.model.delivered))
    @rule()
    def run_backwards(self) -> None:
        with pytest.raises(OffsetError):
            self.ledger.deliver(self.model.delivered[0] - 1)

    @invariant()
    def agrees(self) -> None:
        unresolved = self.model.unresolved()
        assert self.ledger.committable() == self.model.committable()
        assert self.ledger.pending == len(unresolved)
        assert self.ledger.oldest_unresolved == (unresolved[0] if unresolved else None)
        held = [o for o in self.model.delivered if unresolved and o >= unresolved[0]]
        assert self.ledger.window == len(held)


LedgerMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestLedger = LedgerMachine.TestCase


def test_the_machine_catches_a_ledger_that_leapfrogs() -> None:
    machine = LedgerMachine()
    machine.ledger = HighestSeen(EPOCH)
    machine.deliver(1)
    machine.deliver(1)
    machine.finish(1)
    with pytest.raises(AssertionError):
        machine.agrees()


def test_gaps_never_hold_back_the_commit() -> None:
    ledger = OffsetLedger()
    for offset in (3, 10, 500):
        ledger.deliver(offset)
        ledger.done(offset, 0)
    assert ledger.committable() == 501


def test_nothing_is_committable_before_the_first_is_done() -> None:
    ledger = OffsetLedger()
    ledger.deliver(0)
    ledger.deliver(1)
    ledger.done(1, 0)
    assert ledger.committable() is None
    assert ledger.pending == 1


def test_an_offset_in_a_gap_of_the_window_is_refused() -> None:
    ledger = OffsetLedger()
    ledger.deliver(0)
    ledger.deliver(5)
    with pytest.raises(OffsetError):
        ledger.deliver(3)
    with pytest.raises(OffsetError):
        ledger.done(3, 0)
    with pytest.raises(OffsetError):
        OffsetLedger().deliver(-1)


def test_revoking_returns_the_last_commit_and_ends_the_assignment() -> None:
    ledger = OffsetLedger(EPOCH)
    for offset in range(4):
        ledger.deliver(offset)
    ledger.done(0, EPOCH)
    ledger.done(2, EPOCH)
    assert ledger.revoke() == 1
    assert ledger.revoked
    assert not ledger.done(1, EPOCH)
    assert ledger.committable() is None
    assert ledger.window == ledger.pending == 0
    with pytest.raises(OffsetError):
        ledger.deliver(4)


def test_memory_is_that_of_the_window() -> None:
    ledger = OffsetLedger()
    for offset in range(200_000):
        ledger.deliver(offset)
        if offset >= 100:
            ledger.done(offset - 100, 0)
        assert ledger.window <= 101
    assert ledger.committable() == 199_900
    assert ledger.highest_delivered == 199_999
