"""Rules of the outbox: waves, gaps, delays, keys."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.domain.failures import ConfigurationError
from assay.domain.outbox import (
    FIRST_RETRY,
    LONGEST_RETRY,
    Answer,
    Delivered,
    OutboxEvent,
    Undelivered,
    retry_delay,
    waves,
    without_gaps,
)
from assay.pipeline.publisher_limits import PublisherLimits, shortest_lease


def event(number: int, aggregate: str, kind: str = "result") -> OutboxEvent:
    payload = {"record_id": f"record of {aggregate}"}
    return OutboxEvent(
        UUID(int=number), number, kind, aggregate, "completed", 1, None, payload, datetime.now(UTC)
    )


AGGREGATES = st.lists(st.sampled_from("abcd"), max_size=30)
ANSWERS = st.sampled_from([Delivered("1"), Undelivered("timed_out"), Undelivered("too_large", poison=True)])


@given(AGGREGATES)
def test_waves_hold_each_event_once_and_keep_each_aggregates_order(aggregates: list[str]) -> None:
    events = [event(number, name) for number, name in enumerate(aggregates)]
    rounds = waves(events)
    assert sorted(place for each in rounds for place in each) == list(range(len(events)))
    for each in rounds:
        assert len({events[place].aggregate for place in each}) == len(each)
    for name in set(aggregates):
        order = [place for each in rounds for place in each if events[place].aggregate_id == name]
        assert order == sorted(order)


@given(st.lists(st.tuples(st.sampled_from("abc"), ANSWERS), max_size=30))
def test_nothing_counts_as_delivered_behind_a_gap(pairs: list[tuple[str, Answer]]) -> None:
    events = [event(number, name) for number, (name, _) in enumerate(pairs)]
    kept = without_gaps(events, [answer for _, answer in pairs])
    held: set[str] = set()
    for (name, given_answer), answer in zip(pairs, kept, strict=True):
        if name in held:
            assert answer == Undelivered("behind_an_earlier_event")
        else:
            assert answer == given_answer
        if isinstance(answer, Undelivered):
            held.add(name)


def test_an_answer_too_few_is_a_defect() -> None:
    with pytest.raises(ValueError, match="zip"):
        without_gaps([event(1, "a")], [])


@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True))
def test_delays_double_up_to_the_longest(tries: int, draw: float) -> None:
    delay = retry_delay(tries, draw)
    assert FIRST_RETRY / 2 <= delay <= LONGEST_RETRY
    assert retry_delay(tries + 1, 0.0) >= retry_delay(tries, 0.0)


def test_results_are_keyed_by_their_record_others_by_their_own_id() -> None:
    assert event(1, "line/r").key == "record of line/r"
    assert event(1, "17", kind="isolated_record").key == "17"


def test_a_lease_outlasts_a_batch() -> None:
    limits = PublisherLimits(lease_seconds=shortest_lease(10.0))
    limits.check(10.0)
    with pytest.raises(ConfigurationError, match="--lease"):
        limits.check(11.0)
