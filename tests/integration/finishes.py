"""Finishes as tests need them: one call each, with a cost that tells them apart."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from assay.domain.failures import FailureClass
from assay.domain.work import (
    CallOutcome,
    CallRecord,
    ClaimedTask,
    Evidence,
    Finish,
    Label,
    Passes,
    accept,
    dead_letter,
    park,
    refer,
)

ACCEPT_AT: Final = Decimal("0.85")
COST: Final = Decimal("0.001")
REFUSED: Final = Evidence(FailureClass.CONTRACT, "malformed", (("", "json_invalid"),))


def answered(cost: Decimal = COST) -> Passes:
    """One call that brought an accepted answer."""
    return Passes(calls=(CallRecord(1, CallOutcome.ACCEPTED, cost=cost),))


def accepted(task: ClaimedTask, cost: Decimal = COST) -> Finish:
    plain = f'{{"category":"billing","confidence":0.9,"by":"{task.attempt_id}"}}'
    return accept(task, Label(plain, None, Decimal("0.9")), answered(cost), ACCEPT_AT)


def referred(task: ClaimedTask, cost: Decimal = COST) -> Finish:
    label = Label('{"category":"billing","confidence":0.5}', None, Decimal("0.5"))
    return refer(task, label, answered(cost), "low_confidence", ACCEPT_AT)


def refused(task: ClaimedTask, cost: Decimal = COST) -> Finish:
    call = CallRecord(1, CallOutcome.REJECTED, code="json_invalid", cost=cost)
    return dead_letter(task, "json_invalid", REFUSED, Passes("json_invalid", None, (call,)))


def parked(
    task: ClaimedTask, delay: float = 0.0, *, uses_attempt: bool = True, cost: Decimal = COST
) -> Finish:
    call = CallRecord(1, CallOutcome.FAILED, code="provider_timeout", cost=cost)
    return park(task, delay, "provider_timeout", Passes(None, None, (call,)), uses_attempt=uses_attempt)
