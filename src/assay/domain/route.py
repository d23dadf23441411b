"""Where an accepted value goes: straight to the candidates, or to a person."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import NamedTuple

from assay.domain.boundary import Accepted
from assay.domain.failures import ConfigurationError
from assay.domain.lifecycle import TaskState


class ReviewReason(StrEnum):
    """Why a valid value goes to a person."""

    INSUFFICIENT_EVIDENCE = "insufficient_evidence"
    NO_CONFIDENCE_SIGNAL = "no_confidence_signal"
    NO_THRESHOLD = "no_threshold"
    LOW_CONFIDENCE = "low_confidence"


@dataclass(frozen=True, slots=True, init=False)
class Route:
    """`accept_at`: confidence from which a value is accepted automatically, 0 to 1, inclusive.

    None: every value goes to a person. A float is taken as it is written (0.85 is exactly 0.85).
    """

    accept_at: Decimal | None

    def __init__(self, accept_at: Decimal | float | None = None) -> None:
        wanted = accept_at
        if isinstance(wanted, bool) or not isinstance(wanted, Decimal | float | int | None):
            raise ConfigurationError("Route(accept_at=...) is a number from 0 to 1, or None.")
        exact = Decimal(repr(wanted)) if isinstance(wanted, float | int) else wanted
        if exact is not None and not (exact.is_finite() and 0 <= exact <= 1):
            raise ConfigurationError("Route(accept_at=...) is a number from 0 to 1, or None.")
        object.__setattr__(self, "accept_at", exact)


class Decision(NamedTuple):
    """The state that follows, and why a person is asked (None when nobody is)."""

    state: TaskState
    review_reason: ReviewReason | None


def decide(route: Route, accepted: Accepted) -> Decision:
    """The next state of a valid value, by the route alone; release and policy come after it."""
    if accepted.insufficient_evidence:
        return Decision(TaskState.REVIEW_PENDING, ReviewReason.INSUFFICIENT_EVIDENCE)
    if accepted.confidence is None:
        return Decision(TaskState.REVIEW_PENDING, ReviewReason.NO_CONFIDENCE_SIGNAL)
    if route.accept_at is None:
        return Decision(TaskState.REVIEW_PENDING, ReviewReason.NO_THRESHOLD)
    if accepted.confidence < route.accept_at:
        return Decision(TaskState.REVIEW_PENDING, ReviewReason.LOW_CONFIDENCE)
    return Decision(TaskState.AUTO_CANDIDATE, None)
