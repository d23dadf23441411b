"""The breaker: what opens it, how long, who probes, and that every sequence keeps its invariants."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from assay.domain.breaker import (
    ENDS_OF_CODES,
    Breaker,
    BreakerRules,
    BreakerState,
    Failure,
    FailureWatch,
    open_seconds,
)
from assay.domain.failures import PROVIDER_CODES, FailureClass

RULES = BreakerRules()
DOWN = Failure("provider_connection", 0.0)


def opened(times: int = 1, now: float = 0.0) -> Breaker:
    breaker = Breaker().trip(now, RULES, DOWN)
    for _ in range(times - 1):
        assert breaker.until is not None
        breaker = breaker.begin_probe(breaker.until, RULES, "w").probe_failed(breaker.until, RULES, "w", DOWN)
    return breaker


def test_a_run_of_failures_opens_and_one_success_ends_the_run() -> None:
    watch = FailureWatch(RULES)
    assert [watch.failed(1.0) for _ in range(4)] == [False] * 4
    watch.succeeded(1.0)
    assert [watch.failed(1.0) for _ in range(5)] == [False, False, False, False, True]


def test_half_of_twenty_calls_in_the_window_opens() -> None:
    watch = FailureWatch(RULES)
    answers = []
    for number in range(20):
        if number % 2:
            answers.append(watch.failed(10.0 + number))
        else:
            watch.succeeded(10.0 + number)
    assert answers == [False] * 9 + [True]


def test_less_than_half_does_not_open() -> None:
    watch = FailureWatch(RULES)
    for number in range(300):
        if number % 3 == 0:
            assert not watch.failed(number / 10)
        else:
            watch.succeeded(number / 10)


def test_failures_leave_the_window() -> None:
    watch = FailureWatch(RULES)
    for number in range(18):
        if number % 2:
            watch.failed(float(number))
        else:
            watch.succeeded(float(number))
    for number in range(18):
        watch.succeeded(60.0 + number)
    assert not watch.failed(78.0)


@pytest.mark.parametrize(("streak", "seconds"), [(0, 5), (1, 10), (2, 20), (3, 40), (4, 60), (1000, 60)])
def test_it_stays_open_for_longer_each_time_up_to_the_cap(streak: int, seconds: float) -> None:
    assert open_seconds(RULES, streak, 0.0) == seconds
    assert seconds * 0.75 <= open_seconds(RULES, streak, 0.999) < seconds


def test_what_the_vendor_asked_for_is_honoured() -> None:
    assert open_seconds(RULES, 0, 0.5, 300.0) == 300.0
    assert open_seconds(RULES, 0, 0.0, 1.0) == 5.0


def test_only_the_prober_moves_a_half_open_breaker() -> None:
    half_open = opened().begin_probe(5.0, RULES, "w1")
    assert half_open.state is BreakerState.HALF_OPEN
    assert half_open.begin_probe(6.0, RULES, "w2") is half_open
    assert half_open.probe_succeeded(6.0, "w2") is half_open
    assert half_open.probe_failed(6.0, RULES, "w2", DOWN) is half_open
    assert half_open.probe_unused(6.0, "w2") is half_open
    assert half_open.probe_succeeded(6.0, "w1").state is BreakerState.CLOSED


def test_a_dead_prober_is_replaced_when_its_lease_has_ended() -> None:
    half_open = opened().begin_probe(5.0, RULES, "w1")
    other = half_open.begin_probe(5.0 + RULES.probe_lease, RULES, "w2")
    assert other.prober == "w2"
    assert other.probe_succeeded(99.0, "w1") is other


def test_no_probe_before_it_is_due() -> None:
    breaker = opened()
    assert breaker.begin_probe(4.9, RULES, "w") is breaker


def test_an_outage_keeps_its_beginning_and_a_quick_relapse_its_row() -> None:
    breaker = opened(3)
    assert (breaker.opened_at, breaker.streak) == (0.0, 3)
    assert breaker.until is not None
    closed = breaker.begin_probe(breaker.until, RULES, "w").probe_succeeded(40.0, "w")
    assert closed.trip(99.0, RULES, DOWN).until == 99.0 + 40.0
    assert closed.trip(100.0, RULES, DOWN).until == 100.0 + 5.0


def test_a_probe_that_found_nothing_to_call_is_due_again_at_once() -> None:
    breaker = opened().begin_probe(5.0, RULES, "w").probe_unused(6.0, "w")
    assert (breaker.state, breaker.until, breaker.streak) == (BreakerState.OPEN, 6.0, 1)


def test_every_code_of_an_outage_counts_and_no_other() -> None:
    transient = {code for code, kind in PROVIDER_CODES.items() if kind is FailureClass.TRANSIENT}
    assert set(ENDS_OF_CODES) <= transient
    assert transient - set(ENDS_OF_CODES) == {"provider_adapter_error"}


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: BreakerRules(base=0),
        lambda: BreakerRules(cap=1),
        lambda: BreakerRules(consecutive=0),
        lambda: BreakerRules(share=0),
        lambda: BreakerRules(share=1.1),
        lambda: BreakerRules(calm=-1),
        lambda: BreakerRules(window=float("nan")),
        lambda: BreakerRules(probe_lease=float("inf")),
    ],
)
def test_rules_that_are_none_are_refused(wrong: Callable[[], BreakerRules]) -> None:
    with pytest.raises(ValueError):
        wrong()


@given(st.lists(st.tuples(st.floats(0, 20), st.booleans()), max_size=200))
def test_the_watch_agrees_with_counting(events: list[tuple[float, bool]]) -> None:
    """It never opens on fewer failures than the rules ask for, and always on a run of them."""
    watch, now, seen, run = FailureWatch(RULES), 0.0, [], 0
    for passed, failed in events:
        now += passed
        seen.append((now, failed))
        if not failed:
            run = 0
            watch.succeeded(now)
            continue
        run += 1
        opens = watch.failed(now)
        # The window is kept in slots: it reaches back 25 to 30 seconds.
        lately = [was for at, was in seen if at > now - RULES.window]
        if run >= RULES.consecutive:
            assert opens
        elif opens:
            assert len(lately) >= RULES.least_calls


class Machine(RuleBasedStateMachine):
    """Three workers on one breaker, in any order and at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.breaker = Breaker()
        self.openings = 0

    @rule(seconds=st.floats(0, 200))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(chance=st.floats(0, 0.999), retry_after=st.none() | st.floats(0, 600))
    def trip(self, chance: float, retry_after: float | None) -> None:
        before = self.breaker
        self.breaker = before.trip(self.now, RULES, Failure("provider_timeout", chance, retry_after))
        if before.state is not BreakerState.CLOSED:
            assert self.breaker is before
        else:
            assert self.breaker.until is not None
            assert self.breaker.until >= self.now + (retry_after or 0.0)

    @rule(worker=st.sampled_from("abc"))
    def begin(self, worker: str) -> None:
        before = self.breaker
        self.breaker = before.begin_probe(self.now, RULES, worker)
        if self.breaker is not before:
            assert before.until is not None
            assert before.until <= self.now

    @rule(worker=st.sampled_from("abc"), end=st.sampled_from(["ok", "failed", "unused"]))
    def end(self, worker: str, end: str) -> None:
        before = self.breaker
        if end == "ok":
            self.breaker = before.probe_succeeded(self.now, worker)
        elif end == "failed":
            self.breaker = before.probe_failed(self.now, RULES, worker, DOWN)
        else:
            self.breaker = before.probe_unused(self.now, worker)
        assert (self.breaker is not before) == (before.prober == worker)

    @invariant()
    def states_have_what_belongs_to_them(self) -> None:
        breaker = self.breaker
        half_open = breaker.state is BreakerState.HALF_OPEN
        closed = breaker.state is BreakerState.CLOSED
        assert (breaker.prober is not None) == half_open
        assert (breaker.until is None) == closed
        assert (breaker.opened_at is None) == closed
        assert (breaker.reason is None) == closed
        assert breaker.shifted(10.0).shifted(-10.0).state is breaker.state


TestMachine = Machine.TestCase
