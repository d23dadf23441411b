"""The retry decision: properties over all inputs, and the herd."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.domain.retry import GiveUp, Park, RetryPolicy, backoff_window, decide_retry

POLICY = RetryPolicy()
chances = st.floats(0.0, 1.0, exclude_max=True)
ages = st.floats(0.0, 1e9)
tries = st.integers(1, 10**6)
waits = st.none() | st.floats(allow_nan=True, allow_infinity=True)


def decide(**changes: Any) -> Park | GiveUp:
    values: dict[str, Any] = {
        "attempts": 0,
        "tries": 1,
        "age_seconds": 0.0,
        "counts_attempt": True,
        "chance": 0.5,
    }
    return decide_retry(POLICY, **{**values, **changes})


@given(st.integers(0, 10**6), ages, st.booleans(), st.tuples(tries, chances), waits)
def test_a_park_is_within_bounds_and_a_give_up_has_its_reason(
    attempts: int, age: float, counts: bool, backoff: tuple[int, float], wait: float | None
) -> None:
    tried, chance = backoff
    decision = decide(
        attempts=attempts,
        tries=tried,
        age_seconds=age,
        counts_attempt=counts,
        chance=chance,
        retry_after=wait,
    )
    used = attempts + 1 if counts else 0
    if isinstance(decision, GiveUp):
        if decision.code == "attempts_exhausted":
            assert used >= POLICY.max_attempts
        else:
            assert age >= POLICY.max_age
        return
    assert used < POLICY.max_attempts
    assert age < POLICY.max_age
    assert decision.counts_attempt is counts
    asked = 0.0 if wait is None or math.isnan(wait) else min(max(wait, 0.0), POLICY.max_retry_after)
    assert asked <= decision.delay_seconds <= asked + backoff_window(POLICY, tried)
    assert decision.delay_seconds <= POLICY.max_retry_after + POLICY.cap


@given(tries)
def test_the_window_doubles_up_to_the_cap_and_never_shrinks(tried: int) -> None:
    window = backoff_window(POLICY, tried)
    assert POLICY.base <= window <= POLICY.cap
    assert backoff_window(POLICY, tried + 1) == min(POLICY.cap, 2 * window)


@given(chances, chances, tries)
def test_the_delay_is_proportional_to_chance(one: float, other: float, tried: int) -> None:
    first, second = decide(chance=one, tries=tried), decide(chance=other, tries=tried)
    assert isinstance(first, Park)
    assert isinstance(second, Park)
    assert first.delay_seconds == one * backoff_window(POLICY, tried)
    assert (first.delay_seconds < second.delay_seconds) <= (one < other)


def test_failures_that_do_not_count_park_until_the_age_is_used_up() -> None:
    """A vendor that limits the rate all day costs no attempt; the day after, the task is given up."""
    age, tried = 0.0, 0
    while isinstance(
        decision := decide(counts_attempt=False, tries=(tried := tried + 1), age_seconds=age, chance=0.9),
        Park,
    ):
        assert not decision.counts_attempt
        age += decision.delay_seconds
    assert decision == GiveUp("age_exhausted")
    assert POLICY.max_age <= age <= POLICY.max_age + POLICY.cap
    assert tried > 1000


def test_counted_failures_end_after_max_attempts() -> None:
    decisions = [decide(attempts=attempts, tries=attempts + 1) for attempts in range(5)]
    assert [type(decision) for decision in decisions] == [Park] * 4 + [GiveUp]
    assert decisions[-1] == GiveUp("attempts_exhausted")


def test_a_herd_that_was_told_one_moment_is_spread() -> None:
    delays = [decide(retry_after=30.0, chance=n / 1000, tries=5) for n in range(1000)]
    seconds = [decision.delay_seconds for decision in delays if isinstance(decision, Park)]
    assert min(seconds) == 30.0
    assert max(seconds) > 45.0
    assert max(sum(1 for s in seconds if n <= s < n + 1) for n in range(30, 46)) <= 70


@pytest.mark.parametrize("chance", [-0.1, 1.0, math.nan])
def test_chance_outside_its_range_is_refused(chance: float) -> None:
    with pytest.raises(ValueError, match="chance"):
        decide(chance=chance)


@pytest.mark.parametrize(
    "limits",
    [{"base": 0.0}, {"cap": 0.5}, {"max_age": math.inf}, {"max_attempts": 0}, {"max_retry_after": math.nan}],
)
def test_limits_that_are_none_are_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        RetryPolicy(**limits)


def test_an_age_that_is_not_a_number_is_no_licence_to_go_on() -> None:
    assert decide(age_seconds=math.nan) == GiveUp("age_exhausted")
