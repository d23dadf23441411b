"""Finishes: fenced, all or nothing, and honest about leases that were lost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import psycopg

from assay.adapters.postgres.ledger import CALL_COLUMNS, call_rows
from assay.adapters.postgres.queries import queries
from assay.adapters.postgres.replay_finish import ReplayFinish
from assay.adapters.postgres.session import Connection, Pool, columns, transact
from assay.domain.dead_letters import DUE_AFTER_SECONDS, fields_of, fingerprint
from assay.domain.lifecycle import TaskState
from assay.domain.work import CallRecord, ClaimedTask, Finish, Finished, FinishOutcome, unstorable
from assay.ports import Probe
from assay.telemetry import tell

# The class of the advisory locks that finish shares and freeze takes alone, one lock per version.
RELEASE_LOCKS: Final = 0x41535359


class FinishStore:
    """Finishes for one pipeline version by one worker (`actor`)."""

    def __init__(
        self,
        pool: Pool,
        *,
        name: str,
        version_id: int,
        actor: str,
        account: str | None = None,
        probe: Probe = lambda _: None,
    ) -> None:
        self._pool = pool
        self._name = name
        self._version_id = version_id
        self._actor = actor
        self._account = account
        self._probe = probe
        self._sql = queries("finish")
        self._replays = ReplayFinish()

    async def finish(self, finishes: Sequence[Finish]) -> dict[UUID, Finished]:
        """Finish attempts in one transaction; the answer is by attempt.

        `already_done`: the commit went through earlier and its reply was lost. `lease_lost`: somebody took
        over; the calls are kept in the ledger, nothing else is written.

        A value that PostgreSQL cannot store is a defect of the boundary. It must not hold up the finishes it
        shares a batch with: the batch is halved until the value stands alone, which is then dead-lettered.
        """
        try:
            return await transact(self._pool, lambda c: self._finish(c, finishes))
        except psycopg.DataError as error:
            if len(finishes) > 1:
                middle = len(finishes) // 2
                return await self.finish(finishes[:middle]) | await self.finish(finishes[middle:])
            (finish,) = finishes
            if finish.label is None:
                raise
            tell("label_unstorable", error=error, task_id=finish.task.task_id)
            return await self.finish([unstorable(finish)])

    async def _finish(self, connection: Connection, finishes: Sequence[Finish]) -> dict[UUID, Finished]:
        await connection.execute(
            self._sql["finish_lock_versions"],
            {"lock_class": RELEASE_LOCKS, "version_ids": [self._version_id]},
        )
        # Rows are locked in the order of the offer, so the offer is in key order.
        ordered = sorted(finishes, key=lambda f: f.task.identity)
        rows = await self._all(connection, "finish_tasks", self._offer(ordered))
        states = {attempt_id: TaskState(state) for attempt_id, state, _ in rows}
        done = [finish for finish in ordered if finish.task.attempt_id in states]
        serving = sum(serves for _, _, serves in rows)
        await self._write_destinations(connection, done, states, serving)
        answers = {attempt: Finished(FinishOutcome.DONE, state) for attempt, state in states.items()}
        if len(done) < len(finishes):
            missed = [finish for finish in ordered if finish.task.attempt_id not in states]
            answers |= await self._explain_missed(connection, missed)
        self._probe("in_finish")
        return answers

    def _offer(self, finishes: Sequence[Finish]) -> dict[str, Any]:
        calls = [row for f in finishes for row in call_rows(f.task, self._version_id, f.passes.calls)]
        return (
            columns([_finish_row(finish) for finish in finishes], _FINISH_COLUMNS)
            | columns(calls, tuple(f"call_{name}" for name in CALL_COLUMNS))
            | {"actor": self._actor, "account": self._account}
        )

    async def _write_destinations(
        self, connection: Connection, done: Sequence[Finish], states: dict[UUID, TaskState], serving: int
    ) -> None:
        dead = [f for f in done if states[f.task.attempt_id] is TaskState.QUARANTINED]
        replayed = [
            f.task.task_id
            for f in done
            if f.task.replay_id is not None and states[f.task.attempt_id] is not TaskState.RETRY_SCHEDULED
        ]
        if replayed:
            await self._replays.before_letters(connection, replayed)
        if dead:
            await connection.execute(self._sql["finish_dead_letters"], self._dead_columns(dead))
            await self._replays.keep_responses(connection, dead)
        if replayed:
            await self._replays.settle(connection, replayed, self._actor)
        parked = [f.task.task_id for f in done if states[f.task.attempt_id] is TaskState.RETRY_SCHEDULED]
        if parked:
            await connection.execute(self._sql["finish_parked"], {"task_ids": parked})
        settled = [f for f in done if states[f.task.attempt_id] is not TaskState.RETRY_SCHEDULED]
        if not settled:
            return
        if any(f.task.tries > 1 for f in settled):
            task_ids = [f.task.task_id for f in settled]
            await connection.execute(self._sql["finish_unparked"], {"task_ids": task_ids})
        for_people = [
            f.task.task_id
            for f in settled
            if states[f.task.attempt_id] is TaskState.REVIEW_PENDING
            or f.task.quality_selected
            or (f.label is not None and f.label.stratum_selected)
        ]
        if for_people:
            await connection.execute(self._sql["finish_reviews"], {"task_ids": for_people})
        if serving < len(settled) or any(f.task.input_version > 1 for f in settled):
            await self._supersede(connection, sorted({f.task.record_id for f in settled}))

    async def _supersede(self, connection: Connection, record_ids: list[str]) -> None:
        rows = await self._all(
            connection,
            "finish_supersede",
            {"record_ids": record_ids, "name": self._name, "actor": self._actor},
        )
        if rows:
            await connection.execute(
                self._sql["close_superseded"], {"task_ids": [task_id for (task_id,) in rows]}
            )

    @staticmethod
    def _dead_columns(dead: Sequence[Finish]) -> dict[str, Any]:
        rows = []
        for finish in dead:
            evidence = finish.evidence
            if evidence is None:
                raise ValueError("a dead letter needs evidence")
            errors = json.dumps([{"path": path, "type": kind} for path, kind in evidence.errors])
            print_of = fingerprint(str(finish.error_code), evidence.kind, evidence.errors)
            confidence = None if finish.label is None else finish.label.confidence
            rows.append((finish.task.task_id, finish.task.attempt_id, evidence.failure_class.value,
                         evidence.kind, errors, json.dumps(fields_of(evidence.errors)), print_of, confidence,
                         finish.accept_at))  # fmt: skip
        return columns(rows, _DEAD_COLUMNS) | {"due_seconds": DUE_AFTER_SECONDS}

    async def _explain_missed(self, connection: Connection, missed: Sequence[Finish]) -> dict[UUID, Finished]:
        keys = columns([(f.task.task_id, f.task.attempt_id) for f in missed], ("task_ids", "attempt_ids"))
        proven = {
            attempt: TaskState(state) for attempt, state in await self._all(connection, "finish_proven", keys)
        }
        answers = {}
        for finish in missed:
            attempt = finish.task.attempt_id
            if attempt in proven:
                answers[attempt] = Finished(FinishOutcome.ALREADY_DONE, proven[attempt])
            else:
                answers[attempt] = Finished(FinishOutcome.LEASE_LOST, None)
        rows = [
            row
            for f in missed
            if f.task.attempt_id not in proven
            for row in call_rows(f.task, self._version_id, f.passes.calls, lease_lost=True)
        ]
        await self._record_late(connection, rows)
        return answers

    async def _record_late(self, connection: Connection, rows: list[tuple[Any, ...]]) -> None:
        if not rows:
            return
        keys = columns(
            [(row[0], row[1], row[3]) for row in rows], ("task_ids", "attempt_ids", "pass_numbers")
        )
        await connection.execute(self._sql["forget_unknown_calls"], keys)
        await connection.execute(self._sql["record_calls"], columns(rows, CALL_COLUMNS))

    async def note_first_pass(self, notes: Sequence[tuple[ClaimedTask, str, CallRecord]]) -> set[UUID]:
        """Make first-pass failures durable before the correction is asked for; the attempts still ours."""
        return await transact(self._pool, lambda c: self._note_first_pass(c, notes))

    async def _note_first_pass(
        self, connection: Connection, notes: Sequence[tuple[ClaimedTask, str, CallRecord]]
    ) -> set[UUID]:
        ordered = sorted(notes, key=lambda note: note[0].identity)
        keys = columns(
            [(task.task_id, task.attempt_id, code) for task, code, _ in ordered],
            ("task_ids", "attempt_ids", "codes"),
        )
        rows = await self._all(connection, "note_first_pass", keys)
        ours = {attempt_id for attempt_id, _ in rows}
        known = {attempt_id for attempt_id, known in rows if known}
        late: list[tuple[Any, ...]] = []
        kept: list[tuple[Any, ...]] = []
        for task, _, call in ordered:
            if task.attempt_id not in ours:
                late.extend(call_rows(task, self._version_id, (call,), lease_lost=True))
            elif task.attempt_id not in known:
                kept.extend(call_rows(task, self._version_id, (call,)))
        if kept:
            await connection.execute(self._sql["record_calls"], columns(kept, CALL_COLUMNS))
        await self._record_late(connection, late)
        return ours

    async def _all(self, connection: Connection, name: str, parameters: Any) -> list[tuple[Any, ...]]:
        cursor = await connection.execute(self._sql[name], parameters)
        return await cursor.fetchall()


_DEAD_COLUMNS: Final = (
    "task_ids", "attempt_ids", "failure_classes", "kinds", "errors", "fields", "fingerprints", "confidences",
    "accept_ats",
)  # fmt: skip
_NO_LABEL: Final = (None, None, None, None, None, None)
_FINISH_COLUMNS: Final = (
    "task_ids", "attempt_ids", "text_refs", "states", "moves", "reasons", "error_codes", "review_reasons",
    "first_pass_codes", "second_pass_codes", "delays", "uses_attempt", "accept_ats", "plain", "sealed",
    "confidences", "strata", "stratum_probabilities", "stratum_selected",
)  # fmt: skip


def _finish_row(finish: Finish) -> tuple[Any, ...]:
    """One finish in the order of _FINISH_COLUMNS."""
    task, passes, label = finish.task, finish.passes, finish.label
    shown = _NO_LABEL if label is None else (
        label.plain_json, label.sealed, label.confidence, label.stratum, label.stratum_probability,
        label.stratum_selected,
    )  # fmt: skip
    return (
        task.task_id, task.attempt_id, task.text_ref, finish.state.value, finish.move.value, finish.reason,
        finish.error_code, finish.review_reason, passes.first_code, passes.second_code, finish.delay_seconds,
        finish.uses_attempt, finish.accept_at, *shown,
    )  # fmt: skip
