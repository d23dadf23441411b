"""A label that PostgreSQL cannot store is one dead letter; the finishes beside it are not held up."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import psycopg
import pytest
from finishes import ACCEPT_AT, accepted, answered
from stores import Bench, Station, open_bench, stations

from assay.domain.lifecycle import TaskState
from assay.domain.work import ClaimedTask, Finish, Label, accept


@pytest.fixture
def bench(db_url: str) -> Iterator[Bench]:
    with open_bench(db_url) as opened:
        yield opened


def claimed(bench: Bench, station: Station, count: int) -> list[ClaimedTask]:
    return [station.claim_one(bench.offer(f"r{number}")) for number in range(count)]


def beyond_numeric(task: ClaimedTask) -> Finish:
    """JSON, but its number is beyond PostgreSQL's numeric: what the boundary must never let through."""
    return accept(task, Label('{"f": 1e200000}', None, Decimal("0.9")), answered(), ACCEPT_AT)


def test_the_batch_survives_one_unstorable_label(bench: Bench) -> None:
    with stations(bench, 1) as (station,):
        tasks = claimed(bench, station, 9)
        finishes = [beyond_numeric(task) if n == 4 else accepted(task) for n, task in enumerate(tasks)]
        answers = station.finish(*finishes)
    assert [answer.state for answer in answers] == [
        TaskState.QUARANTINED if n == 4 else TaskState.AUTO_CANDIDATE for n in range(9)
    ]
    assert bench.rows("SELECT error_code, failure_class, errors FROM assay.dead_letters") == [
        ("unexpected_parse_error", "contract", [{"path": "", "type": "unstorable"}])
    ]
    assert bench.rows("SELECT outcome, code FROM assay.calls WHERE code IS NOT NULL") == [
        ("rejected", "unexpected_parse_error")
    ]
    assert bench.one("SELECT count(*) FROM assay.calls") == 9
    assert bench.one("SELECT count(*) FROM assay.outbox_events") == 9


def test_a_defect_without_a_label_is_not_hidden(bench: Bench) -> None:
    with stations(bench, 1) as (station,):
        (task,) = claimed(bench, station, 1)
        broken = accepted(task)
        object.__setattr__(broken, "label", None)
        object.__setattr__(broken, "reason", "a\0b")
        with pytest.raises(psycopg.DataError):
            station.finish(broken)
    assert bench.one("SELECT state::text FROM assay.annotation_tasks") == "processing"
