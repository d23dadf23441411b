"""Lag: its arithmetic, its limits, its page."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from rich.console import Console

from assay.cli.json_text import to_json
from assay.cli.lag_command import age_seconds
from assay.cli.lag_page import as_object, show
from assay.domain.failures import ConfigurationError
from assay.domain.lag import Lag, PartitionLag, SinkBacklog, TopicLag, Waiting, age_text

BEHIND = PartitionLag(0, 0, 1500, 1200, 1190, Waiting(7, 2, 95.0), 8000.0)
DONE = PartitionLag(1, 10, 40, 40, 40)
NONE = Waiting()
SINK = SinkBacklog("kafka:tickets.out", 2, 12, 30.0, 1)


def lag(*partitions: PartitionLag, opened: bool = True, elsewhere: Waiting = NONE) -> Lag:
    return Lag("tickets", "assay-tickets", datetime(2026, 5, 1, 12, tzinfo=UTC),
               (TopicLag("tickets.in", opened, partitions),), (), elsewhere, (SINK,))  # fmt: skip


def page(found: Lag) -> str:
    told = io.StringIO()
    show(Console(file=told, width=200, markup=False, highlight=False), found)
    return told.getvalue()


@pytest.mark.parametrize(
    ("low", "high", "settled", "told"),
    [
        (0, 10, None, (10, 0, False)),
        (4, 10, None, (6, 0, False)),
        (0, 10, 10, (0, 0, False)),
        (0, 10, 3, (7, 0, False)),
        (5, 10, 3, (5, 2, False)),
        (20, 20, 3, (0, 17, False)),
        (0, 10, 12, (0, 0, True)),
        (0, 0, None, (0, 0, False)),
    ],
)
def test_lag_of_a_partition(low: int, high: int, settled: int | None, told: tuple[int, int, bool]) -> None:
    found = PartitionLag(0, low, high, settled)
    assert (found.lag, found.expired, found.beyond_end) == told


def test_totals_are_those_of_all_partitions() -> None:
    found = lag(BEHIND, DONE, elsewhere=Waiting(3, 0, 400.0))
    assert (found.total, found.unfinished, found.backlog) == (300, 10, 12)
    assert (found.oldest_unfinished_seconds, found.oldest_unsettled_seconds) == (400.0, 8000.0)
    nothing = lag(DONE)
    assert (nothing.oldest_unfinished_seconds, nothing.oldest_unsettled_seconds) == (None, None)


def test_limits() -> None:
    found = lag(BEHIND, DONE)
    assert found.exceeded(None, None) == []
    assert found.exceeded(300, 8000.0) == []
    assert found.exceeded(299, None) == ["300 messages not settled, over 299."]
    assert found.exceeded(11, 94.0) == [
        "300 messages not settled, over 11.",
        "12 events not published, over 11.",
        "The oldest message that is not settled has waited 2h 13m, over 1m 34s.",
        "The oldest record that is not finished has waited 1m 35s, over 1m 34s.",
    ]


def test_deleted_messages_pass_every_limit() -> None:
    found = lag(PartitionLag(3, 5, 10, 4))
    assert found.exceeded(None, None) == []
    deleted = "1 message of tickets.in, partition 3, was deleted by the broker before being read."
    assert found.exceeded(10**9, None) == found.exceeded(None, 10.0**9) == [deleted]
    assert deleted in page(found)


def test_the_page_has_all_figures_and_what_is_odd() -> None:
    found = replace(lag(BEHIND, DONE, opened=False, elsewhere=Waiting(1)), gone=("old.in",))
    told = page(found)
    rows = [line.split() for line in told.splitlines()]
    assert ["tickets.in", "0", "0", "1500", "1200", "1190", "300", "2h", "13m", "7", "1m", "35s"] in rows
    assert ["tickets.in", "1", "10", "40", "40", "40", "0", "–", "0", "–"] in rows
    assert ["kafka:tickets.out", "2", "12", "30s", "1"] in rows
    assert "Lag of tickets, group assay-tickets, at 2026-05-01 12:00:00.000Z" in told
    assert "No worker of the group assay-tickets has opened tickets.in as it is now" in told
    assert "Read once, and not at these brokers: old.in." in told
    assert "1 unfinished record came from files or other topics." in told
    assert "2 unfinished records of low priority, which is paused" in told


def test_names_are_data() -> None:
    odd = replace(lag(DONE), gone=("[red]\x1b[2J",))
    assert "[red]\\x1b[2J" in page(odd)


def test_the_object_has_the_same() -> None:
    found = json.loads(to_json(as_object(lag(BEHIND), ["why"])))
    assert (found["lag"], found["exceeded"], found["now"]) == (300, ["why"], "2026-05-01T12:00:00+00:00")
    (partition,) = found["topics"][0]["partitions"]
    assert partition == {
        "partition": 0, "low": 0, "high": 1500, "settled": 1200, "committed": 1190, "lag": 300, "expired": 0,
        "beyond_end": False, "oldest_unsettled_seconds": 8000.0, "unfinished": 7, "held": 2,
        "oldest_unfinished_seconds": 95.0,
    }  # fmt: skip
    assert found["outbox"] == [
        {"sink": "kafka:tickets.out", "publishers": 2, "backlog": 12, "oldest_seconds": 30.0, "refused": 1}
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (0.9, "0s"), (59, "59s"), (60, "1m"), (3600, "1h"), (3601, "1h"), (3661, "1h 1m"),
     (90000, "1d 1h"), (-5, "0s")],
)  # fmt: skip
def test_ages_have_two_units(seconds: float, text: str) -> None:
    assert age_text(seconds) == text


@pytest.mark.parametrize(("age", "seconds"), [("90s", 90), ("15m", 900), ("6h", 21_600), ("2d", 172_800)])
def test_an_age_is_a_number_with_its_unit(age: str, seconds: int) -> None:
    assert age_seconds(age) == seconds


@pytest.mark.parametrize("age", ["", "6", "h", "-1h", "1.5h", "1w"])
def test_anything_else_is_refused(age: str) -> None:
    with pytest.raises(ConfigurationError, match="90s, 15m, 6h, 2d"):
        age_seconds(age)
