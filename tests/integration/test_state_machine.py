"""Arbitrary histories of claims, stalls and finishes: the database and a small model of it must agree."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final
from uuid import UUID

import pytest
from finishes import ACCEPT_AT, REFUSED
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from model_comparison import differences, expected, found
from sql_variants import StateFencedFinishes
from stores import LEASE, Bench, Station, open_bench, register, stations
from task_model import Model

from assay.adapters.postgres.audit_store import AuditStore
from assay.adapters.postgres.finish_store import FinishStore
from assay.adapters.postgres.version_store import VersionStore
from assay.domain.identity import InputKey
from assay.domain.lifecycle import TaskState
from assay.domain.work import (
    CallOutcome,
    CallRecord,
    ClaimedTask,
    Finish,
    FinishOutcome,
    Isolation,
    Label,
    Passes,
    Verdict,
    accept,
    dead_letter,
    park,
    refer,
)

EXAMPLES: Final = 60
STEPS: Final = 40
ACTORS: Final = 3
RECORDS: Final = ("a", "b", "c")

records = st.tuples(
    st.sampled_from(RECORDS), st.sampled_from((1, 1, 1, 2, 2, 3)), st.sampled_from((0, 0, 0, 0, 1))
)
actors = st.integers(0, ACTORS - 1)
kinds = st.sampled_from(("accept", "accept", "refer", "refuse", "park", "park for long", "park freely"))


def finish_of(task: ClaimedTask, kind: str, noted: str | None) -> Finish:
    """A finish with the call that its attempt still had to make."""
    first = noted or task.first_pass_code
    number = 1 if first is None else 2

    def passes(outcome: CallOutcome, code: str | None = None) -> Passes:
        second = code if number == 2 else None
        return Passes(first or code, second, (CallRecord(number, outcome, code=code),))

    label = Label(f'{{"by": "{task.attempt_id}"}}', None, ACCEPT_AT)
    match kind:
        case "accept":
            return accept(task, label, passes(CallOutcome.ACCEPTED), ACCEPT_AT)
        case "refer":
            return refer(task, label, passes(CallOutcome.ACCEPTED), "low_confidence", ACCEPT_AT)
        case "refuse":
            return dead_letter(task, "json_invalid", REFUSED, passes(CallOutcome.REJECTED, "json_invalid"))
        case _:
            failed = Passes(None, None, (CallRecord(number, CallOutcome.FAILED, code="provider_timeout"),))
            delay, free = (120.0 if kind == "park for long" else 0.0), kind == "park freely"
            return park(task, delay, "provider_timeout", failed, uses_attempt=not free)


class TaskMachine(RuleBasedStateMachine):
    """One example is one version of one line of its own, in the database of the whole test."""

    bench: ClassVar[Bench]
    workers: ClassVar[list[Station]]
    numbers: ClassVar[Iterator[int]]
    seen: ClassVar[Counter[str]]

    @initialize()
    def begin(self) -> None:
        name = f"line-{next(self.numbers):05d}"
        self.line = replace(self.bench, name=name, version_id=register(self.bench.url, name, "m"))
        for worker in self.workers:
            worker.work_for(self.line)
        self.versions = VersionStore(self.bench.url)
        self.model = Model(LEASE)
        self.start = self.bench.one("SELECT assay.assay_now()")
        self.hands: dict[UUID, ClaimedTask] = {}
        self.holders: dict[UUID, int] = {}
        self.ended: list[Finish] = []
        self.noted: dict[UUID, str] = {}
        self.isolated = 0

    # --- claims -------------------------------------------------------------------------------------------

    @rule(actor=actors, batch=st.lists(records, min_size=1, max_size=5), selected=st.booleans())
    def claim(self, actor: int, batch: list[tuple[str, int, int]], selected: bool) -> None:
        offers = [
            self.line.offer(
                f"{self.line.name}-{record}", version, text=f"{record} {content}", selected=selected
            )
            for record, version, content in batch
        ]
        claims = self.workers[actor].claim(offers)
        self.model.begin(actor)
        won = {record.position: task for record, task in claims.won}
        found = {each.record.position: each.verdict for each in claims.not_won}
        assert len(won) + len(found) == len(offers)
        rest = offers
        while rest:
            turn: dict[InputKey, Any] = {}
            later = [offer for offer in rest if turn.setdefault(offer.record.key, offer) is not offer]
            expected = {key: self.model.verdict(offer) for key, offer in turn.items()}
            self.model.end_leases(key for key, verdict in expected.items() if verdict is Verdict.WON)
            taken = set()
            for key, offer in turn.items():
                position = offer.record.position
                assert found.get(position, Verdict.WON) is expected[key]
                self.seen[expected[key]] += 1
                if position in won:
                    self._hold(won[position], actor)
                    self.model.claimed(offer, won[position].attempt_id, actor)
                    taken.add(key)
            if taken:
                self.model.batches.append(taken)
            rest = later
        self._isolate(actor, [each.record for each in claims.not_won if each.verdict is Verdict.CONFLICT])

    def _hold(self, task: ClaimedTask, actor: int) -> None:
        self.hands[task.attempt_id] = task
        self.holders[task.attempt_id] = actor

    def _isolate(self, actor: int, conflicts: Sequence[Any]) -> None:
        isolations = [Isolation.of_conflict(record) for record in conflicts]
        worker = self.workers[actor]
        if isolations:
            for new in (len(isolations), 0):
                isolate = worker.sources.isolate(self.line.source_id, isolations)
                assert worker.run(isolate) == new
        self.isolated += len(isolations)

    @rule(actor=actors)
    def take_over(self, actor: int) -> None:
        taken = self.workers[actor].claim_waiting(50)
        self.model.begin(actor)
        assert {task.identity for task in taken} == self.model.waiting()
        assert len(taken) == len(self.model.waiting())
        self.model.end_leases(self.model.waiting())
        for task in taken:
            assert task.taken_over == (self.model.tasks[task.identity].state is TaskState.PROCESSING)
            assert task.text == self.model.contents[task.identity]
            self._hold(task, actor)
            self.model.taken(self.model.tasks[task.identity], task.attempt_id, actor)
        if taken:
            self.model.batches.append({task.identity for task in taken})

    @precondition(lambda self: self.hands)
    @rule(actor=actors)
    def outlast_and_take_over(self, actor: int) -> None:
        self.stall(91)
        self.take_over(actor)

    @rule(seconds=st.sampled_from((1, 45, 91)))
    def stall(self, seconds: int) -> None:
        self.bench.advance(seconds)
        self.model.now += seconds

    @rule(actor=actors)
    def tidy(self, actor: int) -> None:
        assert self.workers[actor].run(self.workers[actor].claims.tidy()) == self.model.tidy()

    # --- what attempts do --------------------------------------------------------------------------------

    def _some(self, data: st.DataObject, most: int) -> list[ClaimedTask]:
        """Attempts that have not ended: some hold their task, some have lost it."""
        tasks = list(self.hands.values())
        chosen = st.lists(st.integers(0, len(tasks) - 1), min_size=1, max_size=most, unique=True)
        return [tasks[number] for number in data.draw(chosen)]

    def _finish(self, actor: int, finishes: list[Finish]) -> None:
        answers = self.workers[actor].finish(*finishes)
        expected = self.model.finish(finishes)
        assert [(answer.outcome, answer.state) for answer in answers] == expected
        self.seen.update(outcome for outcome, _ in expected)

    @precondition(lambda self: self.hands)
    @rule(data=st.data(), actor=actors)
    def finish(self, data: st.DataObject, actor: int) -> None:
        finishes = [
            finish_of(task, data.draw(kinds), self.noted.get(task.attempt_id)) for task in self._some(data, 3)
        ]
        self._finish(actor, finishes)
        self.ended += finishes
        for finish in finishes:
            del self.hands[finish.task.attempt_id]

    @precondition(lambda self: self.ended)
    @rule(data=st.data(), actor=actors)
    def finish_again(self, data: st.DataObject, actor: int) -> None:
        """As after a lost commit reply: the very same finish once more."""
        self._finish(actor, [self.ended[data.draw(st.integers(0, len(self.ended) - 1))]])

    @precondition(lambda self: self.hands)
    @rule(data=st.data())
    def renew(self, data: st.DataObject) -> None:
        chosen = self._some(data, 3)
        actor = self.holders[chosen[0].attempt_id]
        tasks = [task for task in chosen if self.holders[task.attempt_id] == actor]
        expected = self.model.renew([(task.identity, task.attempt_id) for task in tasks], actor)
        assert self.workers[actor].renew(tasks) == expected
        self.seen["lease kept" if len(expected) == len(tasks) else "lease lost at renewal"] += 1

    @precondition(lambda self: self.hands)
    @rule(data=st.data(), actor=actors)
    def note_first_pass(self, data: st.DataObject, actor: int) -> None:
        (task,) = self._some(data, 1)
        if task.first_pass_code is not None or task.attempt_id in self.noted:
            return
        call = CallRecord(1, CallOutcome.REJECTED, code="schema_type_error")
        worker = self.workers[actor]
        ours = worker.run(worker.finishes.note_first_pass([(task, "schema_type_error", call)]))
        if self.model.note(task.identity, task.attempt_id, "schema_type_error"):
            self.noted[task.attempt_id] = "schema_type_error"
            assert ours == {task.attempt_id}
        else:
            assert ours == set()

    @precondition(lambda self: self.hands)
    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        """Workers die: nobody will ever finish these attempts."""
        for task in self._some(data, 3):
            del self.hands[task.attempt_id]

    @rule()
    def freeze_or_unfreeze(self) -> None:
        version_id = self.line.version_id
        if self.model.frozen:
            assert self.versions.unfreeze(version_id)
        else:
            assert self.versions.freeze(version_id, reason="test", actor="test")
        self.model.frozen = not self.model.frozen

    # --- after every step ---------------------------------------------------------------------------------

    @invariant()
    def the_database_says_what_the_model_says(self) -> None:
        account = found(self.bench.db, self.line.version_id, self.start)
        assert differences(account, expected(self.model)) == {}
        isolated = "SELECT count(*) FROM assay.isolated_records WHERE starts_with(record_id, %s)"
        assert self.bench.one(isolated, self.line.name) == self.isolated

    @invariant()
    def revisions_have_no_gap(self) -> None:
        """Serving events of one record are numbered 1, 2, 3 ..., and the result stands at the last one."""
        revisions: dict[str, list[int]] = {}
        for (record_id, kind, revision, _), count in self.model.events.items():
            if kind != "superseded":
                revisions.setdefault(record_id, []).extend([revision] * count)
        for record_id, numbers in revisions.items():
            assert sorted(numbers) == list(range(1, self.model.results[record_id][1] + 1))

    @invariant()
    def an_output_is_of_the_attempt_that_the_history_names(self) -> None:
        assert self.bench.one(
            "SELECT count(*) FROM assay.annotation_outputs o JOIN assay.annotation_tasks t USING (task_id) "
            "WHERE t.version_id = %s AND 1 <> (SELECT count(*) FROM assay.task_history h "
            "WHERE h.task_id = o.task_id AND h.attempt_id = o.attempt_id "
            "AND h.move IN ('accept', 'refer', 'dead_letter'))",
            self.line.version_id,
        ) == 0  # fmt: skip


def _explore(url: str, finishes: type[FinishStore]) -> Counter[str]:
    """Run many histories, compare after every step, audit at the end; what was seen on the way."""
    seen: Counter[str] = Counter()
    with open_bench(url) as bench, stations(bench, ACTORS, finishes=finishes) as workers:
        bench.stop_clock()
        terms = {"bench": bench, "workers": workers, "seen": seen}
        machine = type("Machine", (TaskMachine,), terms | {"numbers": itertools.count()})
        chosen = settings(
            max_examples=EXAMPLES, stateful_step_count=STEPS, deadline=None, derandomize=True, database=None,
            phases=[Phase.generate], suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        run_state_machine_as_test(machine, settings=chosen)
        assert AuditStore(url, bench.vault).audit().broken == ()
    return seen


def test_any_history_agrees_with_the_model(db_url: str) -> None:
    seen = _explore(db_url, FinishStore)
    # The histories went everywhere.
    assert set(seen) >= {*set(Verdict) - {Verdict.ERASED}, *FinishOutcome}


def test_a_missing_fence_is_found(db_url: str) -> None:
    with pytest.raises(AssertionError):
        _explore(db_url, StateFencedFinishes)
