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
    `destined` those that have a durable destination by now (parked ones included). `waiting` are the parked
    tasks of the version, earlier runs' included; `park_reasons` say why this run parked. `vendor` says what
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
    def done(self) -> int:
        """Items of the source that need nothing more: destined, and not parked."""
        return max(self.skipped + self.destined - self.waiting, 0)

    def count_finish(self, finish: Finish, finished: Finished) -> None:
        """Add one finish and its calls."""
        if finished.outcome is FinishOutcome.LEASE_LOST:
            self.lease_lost += 1
        elif finished.state is TaskState.RETRY_SCHEDULED:
            self.parked += 1
            self.park_reasons[finish.reason] += 1
        elif finished.state is not None:
            self.states[finished.state] += 1
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
