"""The window of calls in flight: up slowly, down at once, never below one."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.domain.concurrency import RefusalShare, Window


def test_it_doubles_in_a_round_trip_until_the_first_push_back() -> None:
    window = Window(100, first=4)
    for _ in range(4):
        window.succeeded(window.size)
    assert window.size == 8


def test_then_it_grows_by_one_for_each_window_of_successes() -> None:
    window = Window(100)
    window.pushed_back(1.0, 0.5)
    assert window.size == 70
    for _ in range(71):
        window.succeeded(70)
    assert window.size == 71


def test_one_cut_for_all_calls_that_were_out() -> None:
    window = Window(100)
    assert window.pushed_back(1.0, 0.9)
    assert not window.pushed_back(1.1, 0.9)
    assert not window.pushed_back(1.2, 1.0)
    assert window.size == 70
    assert window.pushed_back(1.3, 1.1)
    assert window.size == 49


def test_a_window_that_nobody_fills_does_not_grow() -> None:
    window = Window(100, first=10)
    for _ in range(50):
        window.succeeded(7)
    assert window.size == 10


def test_a_paced_account_keeps_what_its_rate_needs() -> None:
    window = Window(100)
    for number in range(1, 30):
        window.pushed_back(float(number), number - 0.5, needed=25.0)
    assert window.size == 25


@pytest.mark.parametrize(
    ("most", "first", "decrease"), [(0, None, 0.7), (5, 0, 0.7), (5, 1, 1.0), (5, 1, 0.0)]
)
def test_settings_that_are_none_are_refused(most: int, first: int | None, decrease: float) -> None:
    with pytest.raises(ValueError):
        Window(most, first=first, decrease=decrease)


@given(st.integers(2, 100), st.floats(1.0, 99.0))
def test_a_window_that_is_full_grows_again_whatever_its_fraction(most: int, cut_to: float) -> None:
    window = Window(most, decrease=min(cut_to, most * 0.99) / most)
    window.pushed_back(1.0, 0.5)
    for _ in range(most * most):
        window.succeeded(window.size)
    assert window.size == most


@given(
    st.integers(1, 500),
    st.integers(1, 500),
    st.lists(st.tuples(st.booleans(), st.floats(0, 100), st.integers(0, 600)), max_size=200),
)
def test_it_stays_between_one_and_the_most(
    most: int, first: int, events: list[tuple[bool, float, int]]
) -> None:
    window = Window(most, first=first)
    for refused, at, in_flight in events:
        before = window.size
        if refused:
            window.pushed_back(at, at - 0.1)
            assert window.size <= before
        else:
            window.succeeded(in_flight)
            assert before <= window.size <= before + 1
        assert 1 <= window.size <= most


def test_a_refusal_now_and_then_says_nothing_of_a_limit() -> None:
    share = RefusalShare()
    share.answered()
    told = []
    for call in range(3_000):
        if call % 33 == 0:
            told.append(share.refused())
        else:
            share.answered()
    assert not any(told)


def test_refusals_tell_of_a_limit_when_nothing_was_answered_or_several_come_in_a_row_or_many() -> None:
    assert RefusalShare().refused()
    share = RefusalShare()
    share.answered()
    assert [share.refused() for _ in range(5)] == [False, False, False, True, True]
    share = RefusalShare()
    share.answered()
    told = []
    for _ in range(100):
        told.append(share.refused())
        for _ in range(4):
            share.answered()
    assert not told[0]
    assert all(told[40:])


def alarms(share: RefusalShare, chance: random.Random, refused: float, *, calls: int = 20_000) -> int:
    """How often a vendor that refuses such a share of calls, whatever the pace, makes a worker slow down."""
    cut_at, cuts = 0.0, 0
    for call in range(1, calls + 1):
        sent_at = call / 20
        if chance.random() >= refused:
            share.answered(sent_at, cut_at)
        elif share.refused(sent_at, cut_at, paced=True):
            share.acted_on()
            cut_at, cuts = sent_at, cuts + 1
    return cuts


@pytest.mark.parametrize("refused", [0.005, 0.01, 0.025, 0.04])
def test_at_a_pace_what_a_vendor_always_refuses_tells_of_a_limit_rarely(refused: float) -> None:
    share = RefusalShare()
    share.answered()
    # A cut takes 8 %, and growth wins that back in half a minute: 600 calls here.
    assert alarms(share, random.Random(5), refused) <= 10


def test_at_a_pace_a_few_more_refusals_than_just_after_the_cut_tell_of_a_limit() -> None:
    share = RefusalShare()
    share.answered()
    for call in range(1, 400):
        share.answered(call / 20, 0.0)
    told = [share.refused(20.0 + call, 0.0, paced=True) for call in range(3)]
    assert told == [False, False, True]


def test_a_cut_begins_the_count_anew() -> None:
    share = RefusalShare()
    share.answered()
    assert [share.refused(1.0, 0.0) for _ in range(3)] == [False, False, False]
    assert not share.refused(2.0, 1.5)
