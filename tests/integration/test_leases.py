"""Leases: renewal, expiry, take-over, the fence of finish, and what a run does when it loses one."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any, Final
from uuid import UUID, uuid4

import psycopg
import pytest
from finishes import COST, accepted, parked
from scripted_run import Hold, ScriptedModel, run
from sql_variants import StateFencedFinishes, UnfencedFinishes
from stores import LEASE, RESERVE, Bench, Station, open_bench, race, stations
from waiting import deadlocks

from assay.adapters.postgres.claim_store import ClaimStore
from assay.adapters.postgres.finish_store import FinishStore
from assay.adapters.postgres.session import Connection
from assay.domain.work import CallOutcome, CallRecord, ClaimedTask, Finished, FinishOutcome, Verdict

WORKERS: Final = 6
STEPS: Final = 60
RENEWALS: Final = 150
GOOD: Final = json.dumps({"category": "billing", "confidence": 0.93, "reason": "an invoice"})


@pytest.fixture
def bench(db_url: str) -> Iterator[Bench]:
    with open_bench(db_url) as opened:
        opened.stop_clock()
        yield opened


# --- the clock of the lease ---------------------------------------------------------------------------------


def test_a_renewed_lease_outlives_its_first_term(bench: Bench) -> None:
    with stations(bench, 2) as (a, b):
        task = a.claim_one(bench.offer("r"))
        bench.advance(60)
        assert a.renew([task]) == {task.attempt_id}
        bench.advance(60)
        (found,) = b.claim([bench.offer("r")]).not_won
        assert (found.verdict, found.wait_seconds) == (Verdict.IN_PROGRESS, 30.0)
        assert b.claim_waiting() == []
        bench.advance(30)  # the very moment of its end still belongs to the lease
        assert b.claim_waiting() == []
        bench.advance(0.001)
        (taken,) = b.claim_waiting()
        assert taken.taken_over
        assert (taken.attempts, taken.take_overs, taken.tries, taken.text) == (1, 1, 2, task.text)
        assert a.renew([task]) == set()
        assert b.renew([taken]) == {taken.attempt_id}


def test_one_renewal_writes_one_row_however_much_is_held(bench: Bench) -> None:
    with stations(bench, 1) as (a,):
        tasks = [task for _, task in a.claim([bench.offer(f"r{number}") for number in range(200)]).won]
        before = bench.rows("SELECT task_id, ctid FROM assay.annotation_tasks ORDER BY 1")
        bench.advance(60)
        assert a.renew(tasks) == {task.attempt_id for task in tasks}
        assert bench.rows("SELECT task_id, ctid FROM assay.annotation_tasks ORDER BY 1") == before
        assert bench.one("SELECT count(*) FROM assay.leases") == 1
        bench.advance(60)
        assert a.claim_waiting() == []


def test_a_lease_that_ran_out_unnoticed_goes_on(bench: Bench) -> None:
    """Nobody took over: the worker that slept keeps all it held, and no task was written."""
    with stations(bench, 1) as (a,):
        task = a.claim_one(bench.offer("r"))
        bench.advance(10 * LEASE)
        assert a.renew([task]) == {task.attempt_id}
        assert a.claim_waiting() == []


def test_after_one_take_over_the_rest_goes_on_under_a_new_lease(bench: Bench) -> None:
    with stations(bench, 2) as (a, b):
        lost, kept = a.claim_one(bench.offer("r1")), a.claim_one(bench.offer("r2"))
        bench.advance(LEASE + 1)
        (taken,) = [task for _, task in b.claim([bench.offer("r1")]).won]
        assert a.renew([lost, kept]) == {kept.attempt_id}
        assert b.claim_waiting() == []
        bench.advance(LEASE + 1)  # `a` is dead now, and its new lease with it
        assert {task.record_id for task in a.claim_waiting()} == {"r1", "r2"}
        assert b.renew([taken]) == set()
        outcomes = [answer.outcome for answer in a.finish(accepted(lost), accepted(kept))]
        assert outcomes == [FinishOutcome.LEASE_LOST, FinishOutcome.LEASE_LOST]


def test_a_claim_under_an_ended_lease_keeps_its_promise_and_is_adopted(bench: Bench) -> None:
    with stations(bench, 2) as (a, b):
        a.claim_one(bench.offer("r1"))
        bench.advance(LEASE + 1)
        b.claim_one(bench.offer("r1"))
        task = a.claim_one(bench.offer("r2"))  # `a` does not know yet that its lease was ended
        assert b.claim_waiting() == []
        assert a.renew([task]) == {task.attempt_id}
        bench.advance(LEASE - 1)
        assert a.renew([task]) == {task.attempt_id}
        bench.advance(LEASE - 1)
        assert [each.record_id for each in b.claim_waiting()] == ["r1"]


def test_a_claim_that_commits_while_the_lease_is_replaced_is_adopted_at_the_next_renewal(
    bench: Bench,
) -> None:
    with stations(bench, 2) as (a, b):
        held = a.claim_one(bench.offer("r1"))
        lost = a.claim_one(bench.offer("r2"))
        bench.advance(LEASE + 1)
        b.claim_one(bench.offer("r2"))  # ends the lease of `a`
        task = a.claim_one(bench.offer("r3"))  # under the ended lease
        # The renewal saw what was held before that claim was known to it.
        assert a.renew([held, lost]) == {held.attempt_id}
        bench.advance(LEASE - 1)
        assert a.renew([held, task]) == {held.attempt_id, task.attempt_id}
        bench.advance(LEASE - 1)
        assert a.renew([held, task]) == {held.attempt_id, task.attempt_id}
        assert {each.record_id for each in b.claim_waiting()} == {"r2"}


def test_renewing_what_is_over_or_unknown_under_an_ended_lease_brings_nothing_back(bench: Bench) -> None:
    with stations(bench, 2) as (a, b):
        task, other = a.claim_one(bench.offer("r1")), a.claim_one(bench.offer("r2"))
        a.finish(accepted(task))
        bench.advance(LEASE + 1)
        assert len(b.claim_waiting()) == 1
        unknown = replace(other, task_id=10**9, attempt_id=uuid4())
        assert a.renew([task, other, unknown]) == set()
        ended = "SELECT lease_until, lease_id FROM assay.annotation_tasks WHERE task_id = %s"
        assert bench.rows(ended, task.task_id) == [(None, None)]


def test_finished_leases_are_forgotten(bench: Bench) -> None:
    with stations(bench, 1) as (a,):
        a.finish(accepted(a.claim_one(bench.offer("r"))))
        a.run(a.claims.release())
        assert a.run(a.claims.tidy()) == 1
        a.run(a.claims.tidy())
        assert bench.one("SELECT count(*) FROM assay.leases") == 0


def test_a_paid_result_that_nobody_took_over_still_commits(bench: Bench) -> None:
    with stations(bench, 1) as (a,):
        task = a.claim_one(bench.offer("r"))
        bench.advance(10 * LEASE)
        assert a.finish(accepted(task))[0].outcome is FinishOutcome.DONE
        assert bench.rows("SELECT outcome, cost FROM assay.calls") == [("accepted", COST)]


def test_renewal_against_take_over_has_one_holder(bench: Bench) -> None:
    holders: Counter[str] = Counter()
    with stations(bench, 3) as (holder, by_offer, by_waiting):

        async def renew(task: ClaimedTask) -> list[object]:
            return list(holder.renew([task]))

        async def take(station: Station, record_id: str) -> list[object]:
            claims = await station.claims.claim(bench.source_id, [bench.offer(record_id)])
            return [task.attempt_id for _, task in claims.won]

        async def take_waiting() -> list[object]:
            return [task.attempt_id for task in await by_waiting.claims.claim_waiting(10)]

        for number in range(RENEWALS):
            task = holder.claim_one(bench.offer(f"r{number}"))
            bench.advance(LEASE + 1)
            answers = race(
                (holder, partial(renew, task)), (by_offer, partial(take, by_offer, f"r{number}")),
                (by_waiting, take_waiting),
            )  # fmt: skip
            ((attempt_id,),) = [answer for answer in answers if answer]
            assert bench.rows(
                "SELECT attempt_id FROM assay.annotation_tasks WHERE task_id = %s", task.task_id
            ) == [(attempt_id,)]
            holders["holder" if answers[0] else "other"] += 1
            bench.db.execute(  # out of the way of the next round
                "UPDATE assay.annotation_tasks SET lease_until = 'infinity' WHERE state = 'processing'"
            )
    assert min(holders["holder"], holders["other"]) > 0, holders
    assert deadlocks(bench.db) == 0


# --- parked work ------------------------------------------------------------------------------------------


def test_parked_work_comes_up_when_due_and_again_when_its_worker_dies(bench: Bench) -> None:
    with stations(bench, 2) as (a, b):
        a.finish(parked(a.claim_one(bench.offer("r")), 30.0))
        assert a.run(a.claims.next_due()) == (30.0, 1)
        assert [each.verdict for each in b.claim([bench.offer("r")]).not_won] == [Verdict.SETTLED]
        bench.advance(29)
        assert a.claim_waiting() == []
        bench.advance(1)
        (retried,) = a.claim_waiting()
        assert (retried.attempts, retried.tries, retried.age_seconds, retried.taken_over) == (
            2,
            2,
            30.0,
            False,
        )
        assert b.claim_waiting() == []
        bench.advance(LEASE + 1)  # `a` is dead
        (taken,) = b.claim_waiting()
        assert taken.taken_over
        b.finish(accepted(taken))
        assert a.run(a.claims.next_due()) == (None, 0)
        assert a.run(a.claims.tidy()) == 3


@pytest.mark.parametrize(("uses_attempt", "attempts"), [(True, 2), (False, 1)])
def test_a_park_may_give_its_attempt_back(bench: Bench, uses_attempt: bool, attempts: int) -> None:
    with stations(bench, 1) as (a,):
        a.finish(parked(a.claim_one(bench.offer("r")), uses_attempt=uses_attempt))
        (again,) = a.claim_waiting()
        assert (again.attempts, again.tries) == (attempts, 2)
        a.finish(accepted(again))
        assert a.run(a.claims.next_due()) == (None, 0)


def test_retries_under_a_renewed_lease_hide_nothing_that_is_due(bench: Bench) -> None:
    with stations(bench, 2) as (a, b):
        tasks = [a.claim_one(bench.offer(key)) for key in ("r1", "r2", "r3")]
        a.finish(parked(tasks[0]), parked(tasks[1]), parked(tasks[2], LEASE + 10))
        slow = a.claim_waiting()
        bench.advance(LEASE)
        assert len(a.renew(slow)) == 2
        bench.advance(20)
        assert [task.record_id for task in b.claim_waiting(2)] == ["r3"]


# --- the fence ------------------------------------------------------------------------------------------


def _late_finish(bench: Bench, kind: type[FinishStore]) -> Finished:
    """What an attempt hears that finishes after somebody took its task over."""
    with stations(bench, 2, finishes=kind) as (a, b):
        lost = a.claim_one(bench.offer("r"))
        bench.advance(LEASE + 1)
        b.claim_one(bench.offer("r"))
        return a.finish(accepted(lost))[0]


def test_the_fence_refuses_a_superseded_attempt(bench: Bench) -> None:
    assert _late_finish(bench, FinishStore).outcome is FinishOutcome.LEASE_LOST


@pytest.mark.parametrize("kind", [StateFencedFinishes, UnfencedFinishes])
def test_without_the_attempt_a_superseded_result_is_accepted(bench: Bench, kind: type[FinishStore]) -> None:
    assert _late_finish(bench, kind).outcome is FinishOutcome.DONE


def test_a_second_finish_without_any_fence_is_refused_by_the_database(bench: Bench) -> None:
    with stations(bench, 1, finishes=UnfencedFinishes) as (a,):
        task = a.claim_one(bench.offer("r"))
        a.finish(accepted(task))
        with pytest.raises(psycopg.DatabaseError, match="illegal move"):
            a.finish(accepted(task))


def test_both_attempts_of_one_worker_in_one_batch(bench: Bench) -> None:
    """A worker that slept past its lease may take its own task over, and finish both attempts together."""
    with stations(bench, 1) as (a,):
        lost = a.claim_one(bench.offer("r"))
        bench.advance(LEASE + 1)
        (task,) = a.claim_waiting()
        answers = a.finish(accepted(lost, Decimal(3)), accepted(task))
        assert [answer.outcome for answer in answers] == [FinishOutcome.LEASE_LOST, FinishOutcome.DONE]
        assert sorted(bench.rows("SELECT attempt_id, outcome, cost FROM assay.calls"), key=str) == sorted(
            [(lost.attempt_id, "lease_lost", Decimal(3)), (task.attempt_id, "accepted", COST)], key=str
        )


class Stalls:
    """Workers that keep some of what they claim until long after the lease, and finish it late."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.attempts: set[object] = set()
        self.outcomes: Counter[FinishOutcome] = Counter()
        self._lock = threading.Lock()

    async def work(self, station: Station, clock: psycopg.Connection[tuple[object, ...]]) -> None:
        draw = random.Random(station.actor)
        pocket: list[ClaimedTask] = []
        for step in range(STEPS):
            offers = [self.bench.offer(f"r{draw.randrange(step * 4, step * 4 + 40)}") for _ in range(6)]
            claims = await station.claims.claim(self.bench.source_id, offers)
            tasks = [task for _, task in claims.won] + await station.claims.claim_waiting(4)
            draw.shuffle(tasks)
            stalled = len(tasks) // 2
            late, pocket = pocket, tasks[:stalled]
            if draw.random() < 0.3:
                clock.execute("UPDATE assay.instance SET clock_shown = clock_shown + interval '91 s'")
            await self._finish(station, tasks, tasks[stalled:] + late)
        await self._finish(station, [], pocket)

    async def _finish(self, station: Station, begun: list[ClaimedTask], ended: list[ClaimedTask]) -> None:
        answers = await station.finishes.finish([accepted(task) for task in ended])
        with self._lock:
            self.attempts.update(task.attempt_id for task in begun)
            self.outcomes.update(answer.outcome for answer in answers.values())


def _wrong_results(bench: Bench, kind: type[FinishStore]) -> tuple[Stalls, int]:
    """Run the stalling workers; how many results are not of the attempt that held the task at the end."""
    stalls = Stalls(bench)
    with (
        stations(bench, WORKERS, finishes=kind) as workers,
        psycopg.connect(bench.url, autocommit=True) as db,
    ):
        race(*((worker, partial(stalls.work, worker, db)) for worker in workers))
    return stalls, bench.one(
        "SELECT count(*) FROM assay.annotation_outputs o JOIN assay.task_history h USING (task_id) "
        "WHERE h.move = 'accept' AND h.attempt_id <> o.attempt_id"
    )


def test_stalling_workers_leave_one_result_each_of_the_attempt_that_held_it(bench: Bench) -> None:
    stalls, wrong = _wrong_results(bench, FinishStore)
    assert wrong == 0
    lost = stalls.outcomes[FinishOutcome.LEASE_LOST]
    assert lost > 20
    assert set(stalls.outcomes) == {FinishOutcome.DONE, FinishOutcome.LEASE_LOST}
    assert stalls.outcomes.total() == len(stalls.attempts)
    done = stalls.outcomes[FinishOutcome.DONE]
    for table in ("annotation_tasks", "annotation_outputs", "outbox_events", "results"):
        assert bench.one(f"SELECT count(*) FROM assay.{table}") == done
    # Every attempt made one call, and the ledger has it once, with its cost.
    assert sorted(bench.rows("SELECT outcome, count(*), sum(cost) FROM assay.calls GROUP BY 1")) == [
        ("accepted", done, done * COST), ("lease_lost", lost, lost * COST),
    ]  # fmt: skip
    assert deadlocks(bench.db) == 0


def test_stalling_workers_fenced_by_state_alone_leave_wrong_results(bench: Bench) -> None:
    assert _wrong_results(bench, StateFencedFinishes)[1] > 0


# --- a run that loses a lease -----------------------------------------------------------------------------


class Ambush(ClaimStore):
    """Moves the clock past the leases and takes over in one transaction: nobody else sees them end."""

    async def _claim_page(self, page: Any, offered: dict[int, UUID], connection: Connection) -> Any:
        await connection.execute("UPDATE assay.instance SET clock_shown = clock_shown + interval '1 hour'")
        taken = await super()._claim_page(page, offered, connection)
        if not taken.won:  # a renewal had the row just then
            raise psycopg.errors.SerializationFailure
        return taken


def test_a_lost_lease_cancels_the_call(bench: Bench) -> None:
    hold = Hold()
    record = bench.offer("r").record
    progress = []
    runner = threading.Thread(
        target=lambda: progress.append(run(bench, [record], ScriptedModel({"r": [hold]}), lease_seconds=1.5))
    )
    runner.start()
    assert hold.called.wait(30)
    with stations(bench, 1, claims=Ambush, lease_seconds=7200.0) as (other,):
        (task,) = other.claim_waiting()
        assert hold.cancelled.wait(30)
        other.finish(accepted(task))
    runner.join(60)
    assert progress[0].lease_lost == 1
    assert bench.rows("SELECT state::text FROM assay.annotation_tasks") == [("auto_candidate",)]
    # The call that was cut off may have been paid for: it stays in the ledger at its reserve.
    assert bench.rows("SELECT outcome, cost FROM assay.calls ORDER BY call_id") == [
        ("outcome_unknown", RESERVE), ("accepted", COST),
    ]  # fmt: skip


def test_a_first_pass_failure_outlives_its_worker(bench: Bench) -> None:
    """Whoever takes over asks for the correction, never for a second first pass."""
    call = CallRecord(1, CallOutcome.REJECTED, code="json_invalid", cost=COST)
    with stations(bench, 1) as (dead,):
        task = dead.claim_one(bench.offer("r"))
        note = dead.finishes.note_first_pass([(task, "json_invalid", call)])
        assert dead.run(note) == {task.attempt_id}
        bench.advance(LEASE + 1)
    model = ScriptedModel({"r": [GOOD]})
    run(bench, [bench.offer("r").record], model)
    assert [request.pass_number for request in model.requests] == [2]
    assert bench.rows("SELECT pass_number, outcome, code FROM assay.calls ORDER BY call_id") == [
        (1, "rejected", "json_invalid"), (2, "outcome_unknown", None), (2, "accepted", None),
    ]  # fmt: skip
    assert bench.rows("SELECT state::text, first_pass_code FROM assay.annotation_tasks") == [
        ("auto_candidate", "json_invalid")
    ]


def test_notes_of_both_attempts_of_one_worker_in_one_batch(bench: Bench) -> None:
    with stations(bench, 1) as (a,):
        lost = a.claim_one(bench.offer("r"))
        bench.advance(LEASE + 1)
        (task,) = a.claim_waiting()
        calls = [
            CallRecord(1, CallOutcome.REJECTED, code="json_invalid", cost=cost) for cost in (Decimal(3), COST)
        ]
        notes = [(lost, "json_invalid", calls[0]), (task, "json_invalid", calls[1])]
        assert a.run(a.finishes.note_first_pass(notes)) == {task.attempt_id}
        assert set(bench.rows("SELECT attempt_id, outcome, cost FROM assay.calls")) == {
            (lost.attempt_id, "lease_lost", Decimal(3)), (task.attempt_id, "rejected", COST),
        }  # fmt: skip


def test_a_note_after_the_take_over_is_too_late(bench: Bench) -> None:
    call = CallRecord(1, CallOutcome.REJECTED, code="json_invalid", cost=COST)
    with stations(bench, 2) as (a, b):
        lost = a.claim_one(bench.offer("r"))
        bench.advance(LEASE + 1)
        b.claim_one(bench.offer("r"))
        assert a.run(a.finishes.note_first_pass([(lost, "json_invalid", call)])) == set()
        assert bench.rows("SELECT first_pass_code FROM assay.annotation_tasks") == [(None,)]
        assert bench.rows("SELECT outcome, code, cost FROM assay.calls") == [
            ("lease_lost", "json_invalid", COST)
        ]
