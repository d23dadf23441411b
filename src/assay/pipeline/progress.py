"""What a run has done so far, as numbers that a screen may read at any time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal

from assay.domain.lifecycle import TaskState
from assay.domain.work import Finish, Finished, FinishOutcome


@dataclass(slots=True)
class Progress:
    """Counters of one run. `read` counts items of the source, `settled_before` those found done already,
    `destined` those that have a durable destination by now (parked ones included). `parked` counts parks: a
    task may be parked again and again; `park_reasons` say why. `waiting` are the tasks of the version that
    are parked or at another try, earlier runs' included (see `note_waiting`), `waiting_before` those that the
    run found; `resumed` are those at another try in this worker, by task. `vendor` says what
    holds the calls up, if anything.
    """

    total: int | None = None
    skipped: int = 0
    read: int = 0
    destined: int = 0
    isolated: int = 0
    conflicts: int = 0
    settled_before: int = 0
    claimed: int = 0
    taken_over: int = 0
    in_flight: int = 0
    vendor: str | None = None
    parked: int = 0
    waiting: int = 0
    waiting_before: int | None = None
    resumed: set[int] = field(default_factory=set)
    lease_lost: int = 0
    calls: int = 0
    correction_calls: int = 0
    cost: Decimal = Decimal(0)
    cost_unknown: int = 0
    states: Counter[TaskState] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    park_reasons: Counter[str] = field(default_factory=Counter)

    @property
    def accepted(self) -> int:
        return self.states[TaskState.AUTO_CANDIDATE]

    @property
    def review(self) -> int:
        return self.states[TaskState.REVIEW_PENDING]

    @property
    def dead(self) -> int:
        return self.states[TaskState.QUARANTINED]

    @property
    def settled(self) -> int:
        """Records that this run brought to a settled state, and pieces of the source that it isolated."""
        return sum(self.states.values()) + self.isolated + self.conflicts

    @property
    def done(self) -> int:
        """Items of the source that need nothing more: destined, and neither parked nor at another try.

        Never more than there are: until it is known how many wait, none is.
        """
        if self.waiting_before is None:
            return 0
        return max(self.skipped + self.destined - self.waiting, 0)

    def note_waiting(self, found: int, parked_then: int) -> None:
        """The database has `found` tasks waiting; `parked_then` was `parked` when it was asked.

        What was parked since may be missing in its answer. It counts twice until the next one rather than
        not at all: a parked task is never taken for a done one.
        """
        self.waiting = found + self.parked - parked_then
        if self.waiting_before is None:
            self.waiting_before = self.waiting

    def count_finish(self, finish: Finish, finished: Finished) -> None:
        """Add one finish and its calls."""
        was_waiting = finish.task.task_id in self.resumed
        self.resumed.discard(finish.task.task_id)
        if finished.outcome is FinishOutcome.LEASE_LOST:
            self.lease_lost += 1
        elif finished.state is TaskState.RETRY_SCHEDULED:
            self.parked += 1
            self.waiting += not was_waiting
            self.park_reasons[finish.reason] += 1
        elif finished.state is not None:
            self.states[finished.state] += 1
            self.waiting = max(self.waiting - was_waiting, 0)
        if finished.state is TaskState.QUARANTINED and finish.error_code is not None:
            self.codes[finish.error_code] += 1
        for call in finish.passes.calls:
            self.count_call(call.cost, correction=call.pass_number > 1)

    def count_call(self, cost: Decimal | None, *, correction: bool) -> None:
        """Add one call to the ledger's totals."""
        self.calls += 1
        self.correction_calls += correction
        if cost is not None:
            self.cost += cost
        else:
            self.cost_unknown += 1
