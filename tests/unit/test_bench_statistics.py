"""Medians, ratios within a round, ranks."""

from __future__ import annotations

import pytest
from bench.statistics import quantile, ratios, rotated, spread
from hypothesis import given
from hypothesis import strategies as st


def test_the_median_and_the_range_of_measurements() -> None:
    found = spread([30.0, 10.0, 20.0])

    assert (found.median, found.low, found.high, found.count) == (20.0, 10.0, 30.0, 3)
    assert found.swing == 1.0


def test_there_is_no_median_of_nothing() -> None:
    with pytest.raises(ValueError, match="nothing"):
        spread([])


def test_ratios_are_taken_within_a_round_so_that_drift_cancels() -> None:
    rounds = [
        {"ours": 20.0, "ceiling": 40.0},
        {"ours": 10.0, "ceiling": 20.0},
        {"ours": 5.0, "ceiling": 10.0},
    ]

    found = ratios(rounds, "ours", "ceiling")

    assert found is not None
    assert (found.median, found.low, found.high) == (0.5, 0.5, 0.5)


def test_a_round_that_lacks_one_of_the_two_does_not_count() -> None:
    rounds = [{"ours": 1.0}, {"ceiling": 2.0}, {"ours": 3.0, "ceiling": 4.0}]

    found = ratios(rounds, "ours", "ceiling")

    assert found is not None
    assert (found.median, found.count) == (0.75, 1)
    assert ratios(rounds[:2], "ours", "ceiling") is None


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0, 1))
def test_a_quantile_is_one_of_the_measurements(values: list[float], share: float) -> None:
    found = quantile(values, share)

    assert found in values
    assert sum(value < found for value in values) <= share * len(values)


def test_no_measurements_have_quantile_zero() -> None:
    assert quantile([], 0.99) == 0.0


@given(st.lists(st.integers(), unique=True), st.integers(0, 100))
def test_every_round_has_all_names_once(names: list[int], turn: int) -> None:
    found = rotated(names, turn)

    assert sorted(found) == sorted(names)


def test_each_round_begins_at_another_name() -> None:
    assert [rotated("abc", turn)[0] for turn in range(4)] == ["a", "b", "c", "a"]
