"""A freeze is atomic: once it has returned, no task of the version becomes a candidate any more."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import psycopg
import pytest
from finishes import accepted, referred
from sql_variants import LateLockedFinishes, UnlockedFinishes
from stores import Bench, Station, open_bench, stations
from waiting import until_blocked

from assay.adapters.postgres.finish_store import RELEASE_LOCKS, FinishStore
from assay.adapters.postgres.queries import queries
from assay.adapters.postgres.version_store import VersionStore
from assay.domain.lifecycle import TaskState

WORKERS = 4
TRIALS = 200
LONGEST_FREEZE: Final = 30.0
"""Seconds. A freezer waits for the finishes under way, milliseconds or seconds; a starved one, for ever."""

CANDIDATES: Final = "SELECT count(*) FROM assay.task_history WHERE to_state = 'auto_candidate'"


@pytest.fixture
def bench(db_url: str) -> Iterator[Bench]:
    with open_bench(db_url) as opened:
        yield opened


@dataclass
class Mill:
    """Workers that claim and finish as candidates without a pause, each counting its finishes."""

    bench: Bench
    workers: list[Station]
    done: list[int] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)
    progress: threading.Condition = field(default_factory=threading.Condition)

    async def grind(self, number: int) -> None:
        station = self.workers[number]
        batch = 0
        while not self.stop.is_set():
            batch += 1
            offers = [self.bench.offer(f"{number}-{batch:06d}-{each}") for each in range(24)]
            claims = await station.claims.claim(self.bench.source_id, offers)
            for first in range(0, 24, 2):
                await station.finishes.finish([accepted(t) for _, t in claims.won[first : first + 2]])
                with self.progress:
                    self.done[number] += 1
                    self.progress.notify_all()

    def wait_for_any(self, finishes: int) -> None:
        """Until so many further finishes have ended, whoever made them."""
        with self.progress:
            goal = sum(self.done) + finishes
            assert self.progress.wait_for(lambda: sum(self.done) >= goal, 60)

    def wait_for_all(self) -> None:
        """Until every worker has ended a finish that it began after now."""
        with self.progress:
            goal = [done + 2 for done in self.done]
            assert self.progress.wait_for(
                lambda: all(done >= wanted for done, wanted in zip(self.done, goal, strict=True)), 60
            )


@contextmanager
def grinding(bench: Bench, finishes: type[FinishStore]) -> Iterator[Mill]:
    with stations(bench, WORKERS, finishes=finishes) as workers:
        mill = Mill(bench, workers, [0] * WORKERS)
        runs = [worker.start(mill.grind(number)) for number, worker in enumerate(workers)]
        try:
            yield mill
        finally:
            mill.stop.set()
            for run in runs:
                run.result(60)


def _leaks(mill: Mill, draw: random.Random) -> tuple[int, float]:
    """Freeze at a random moment: candidates that appeared after the freeze had returned, and its seconds."""
    versions = VersionStore(mill.bench.url)
    version_id = mill.bench.version_id
    versions.unfreeze(version_id)
    before = mill.bench.one(CANDIDATES)
    mill.wait_for_any(draw.randrange(1, 12))
    started = time.monotonic()
    assert versions.freeze(version_id, reason="test", actor="test")
    took = time.monotonic() - started
    at_return = mill.bench.one(CANDIDATES)
    mill.wait_for_all()
    assert at_return >= before
    return mill.bench.one(CANDIDATES) - at_return, took


def test_nothing_becomes_a_candidate_after_a_freeze(bench: Bench) -> None:
    draw = random.Random(1)
    with grinding(bench, FinishStore) as mill:
        trials = [_leaks(mill, draw) for _ in range(TRIALS)]
    assert [leaked for leaked, _ in trials if leaked] == []
    assert max(took for _, took in trials) < LONGEST_FREEZE
    _held_back_goes_to_people(bench)


def _held_back_goes_to_people(bench: Bench) -> None:
    """Every would-be candidate of a frozen time is in review, with its reason and an item for it."""
    rows = bench.rows(
        "SELECT t.state::text, t.last_move::text, t.review_reason, r.reason, r.state, "
        "count(*) = count(o.label_json) "
        "FROM assay.annotation_tasks t LEFT JOIN assay.review_items r USING (task_id) "
        "LEFT JOIN assay.annotation_outputs o USING (task_id) "
        "WHERE t.state <> 'processing' GROUP BY 1, 2, 3, 4, 5"
    )
    assert sorted(rows, key=str) == [
        ("auto_candidate", "accept", None, None, None, True),
        ("review_pending", "refer", "version_frozen", "version_frozen", "open", True),
    ]


def test_without_the_lock_candidates_leak(bench: Bench) -> None:
    draw = random.Random(1)
    with grinding(bench, UnlockedFinishes) as mill:
        assert any(_leaks(mill, draw)[0] for _ in range(TRIALS))


# --- two connections, step by step ------------------------------------------------------------------------


def _finish_while_freezing(bench: Bench, kind: type[FinishStore]) -> TaskState | None:
    """A finish that begins after a freezer has the lock and before the freezer commits."""
    sql = queries("finish")
    with Station(bench, "worker", finishes=kind) as worker, psycopg.connect(bench.url) as freezer:
        task = worker.claim_one(bench.offer("r"))
        names = {"lock_class": RELEASE_LOCKS, "version_id": bench.version_id}
        freezer.execute(sql["freeze_lock_version"], names)
        freezer.execute(sql["freeze_version"], names | {"reason": "test", "actor": "test"})
        finishing = worker.start(worker.finishes.finish([accepted(task)]))
        until_blocked(bench.db)
        freezer.commit()
        return finishing.result(60)[task.attempt_id].state


def test_a_finish_that_waited_for_the_freezer_sees_the_freeze(bench: Bench) -> None:
    assert _finish_while_freezing(bench, FinishStore) is TaskState.REVIEW_PENDING


def test_a_lock_inside_the_deciding_statement_leaks(bench: Bench) -> None:
    assert _finish_while_freezing(bench, LateLockedFinishes) is TaskState.AUTO_CANDIDATE


def test_the_freezer_waits_for_a_finish_that_has_decided(bench: Bench) -> None:
    decided, go_on = threading.Event(), threading.Event()

    def hold(point: str) -> None:
        if point == "in_finish":
            decided.set()
            assert go_on.wait(60)

    versions = VersionStore(bench.url)
    with Station(bench, "worker", probe=hold) as worker, Station(bench, "second") as second:
        task, later = worker.claim_one(bench.offer("r")), worker.claim_one(bench.offer("s"))
        finishing = worker.start(worker.finishes.finish([accepted(task)]))
        try:
            assert decided.wait(60)
            freezing = threading.Thread(
                target=versions.freeze, args=(bench.version_id,), kwargs={"reason": "test", "actor": "test"}
            )
            freezing.start()
            until_blocked(bench.db)
            # Finishes that come now queue behind the freezer: a stream of them cannot starve it.
            queued = second.start(second.finishes.finish([accepted(later)]))
            until_blocked(bench.db, 2)
        finally:
            go_on.set()
        freezing.join(60)
        assert finishing.result(60)[task.attempt_id].state is TaskState.AUTO_CANDIDATE
        assert queued.result(60)[later.attempt_id].state is TaskState.REVIEW_PENDING


def test_a_freeze_holds_one_version_and_candidates_alone(bench: Bench) -> None:
    versions = VersionStore(bench.url)
    with Station(bench, "worker") as worker:
        a, b, c = (worker.claim_one(bench.offer(key)) for key in "abc")
        assert versions.freeze(bench.version_id, reason="test", actor="test")
        assert not versions.freeze(bench.version_id, reason="again", actor="test")
        assert worker.finish(referred(a))[0].state is TaskState.REVIEW_PENDING
        assert worker.finish(accepted(b))[0].state is TaskState.REVIEW_PENDING
        reasons = bench.rows(
            "SELECT review_reason FROM assay.annotation_tasks WHERE state = 'review_pending'"
        )
        assert sorted(reasons) == [("low_confidence",), ("version_frozen",)]
        assert versions.unfreeze(bench.version_id)
        assert worker.finish(accepted(c))[0].state is TaskState.AUTO_CANDIDATE
    with open_bench(bench.url) as other, Station(other, "worker") as worker:
        versions.freeze(bench.version_id, reason="test", actor="test")
        task = worker.claim_one(other.offer("z"))
        assert worker.finish(accepted(task))[0].state is TaskState.AUTO_CANDIDATE


def test_each_freeze_is_announced_once(bench: Bench) -> None:
    versions = VersionStore(bench.url)
    assert versions.freeze(bench.version_id, reason="mislabel gate", actor="someone")
    assert not versions.freeze(bench.version_id, reason="again", actor="someone")
    assert versions.unfreeze(bench.version_id)
    assert versions.freeze(bench.version_id, reason="once more", actor="someone")
    events = bench.rows(
        "SELECT kind, aggregate_id, revision, payload ->> 'reason' FROM assay.outbox_events"
        " ORDER BY outbox_id"
    )
    place = str(bench.version_id)
    assert events == [
        ("promotion_frozen", place, 1, "mislabel gate"),
        ("promotion_frozen", place, 3, "once more"),
    ]
    assert len({event for (event,) in bench.rows("SELECT event_id FROM assay.outbox_events")}) == 2
