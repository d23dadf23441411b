"""Retries are a share of calls, and a little always."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.domain.retry_budget import RetryBudget


def spend(budget: RetryBudget, now: float) -> int:
    allowed = budget.allowed(now)
    budget.called(retries=allowed)
    return allowed


def test_low_traffic_can_retry() -> None:
    budget = RetryBudget(0.0)
    assert spend(budget, 0.0) == 10
    assert spend(budget, 0.0) == 0
    assert spend(budget, 3.5) == 3


def test_a_share_of_first_calls() -> None:
    budget = RetryBudget(0.0)
    spend(budget, 0.0)
    budget.called(first=50)
    assert budget.allowed(0.0) == 10


def test_a_retry_that_succeeds_costs_nothing() -> None:
    budget = RetryBudget(0.0)
    allowed = spend(budget, 0.0)
    for _ in range(allowed):
        budget.retry_succeeded()
    assert budget.allowed(0.0) == allowed


def test_it_does_not_save_without_bound() -> None:
    budget = RetryBudget(0.0, most=100)
    budget.called(first=10_000)
    assert budget.allowed(86_400.0) == 100


def test_the_shares_of_workers_add_up_to_the_share_of_all() -> None:
    alone, two = RetryBudget(0.0), [RetryBudget(0.0), RetryBudget(0.0)]
    for budget in (alone, *two):
        spend(budget, 0.0)
    alone.called(first=200)
    for budget, calls in zip(two, (150, 50), strict=True):
        budget.called(first=calls)
    assert alone.allowed(0.0) == sum(budget.allowed(0.0) for budget in two) == 40


@pytest.mark.parametrize(
    "wrong", [{"share": 1.5}, {"per_second": 0.0}, {"most": 0.0}, {"most": float("inf")}]
)
def test_settings_that_are_none_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError):
        RetryBudget(0.0, **wrong)


@given(st.lists(st.tuples(st.floats(0, 30), st.integers(0, 200), st.integers(0, 5)), max_size=100))
def test_failing_retries_never_exceed_share_and_floor(steps: list[tuple[float, int, int]]) -> None:
    budget, now, first, retries = RetryBudget(0.0), 0.0, 0, 0
    for passed, calls, _ in steps:
        now += passed
        first += calls
        budget.called(first=calls)
        retries += spend(budget, now)
        assert retries <= 10 + 0.2 * first + now + 1e-6
