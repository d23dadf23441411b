"""What a worker and the shared row of its vendor account tell each other: values."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from assay.domain.breaker import Breaker
from assay.domain.pacing import Ask, Grant, Limits
from assay.domain.permitted_rate import Push


@dataclass(frozen=True, slots=True)
class AccountReport:
    """What one worker has seen since its last report, and what it wants.

    `declared`: the limits that the user named for this run. `stated`: those of the vendor's last reply.
    `answered`: calls not refused for their rate. `push` and `retry_after` (seconds): the
    vendor's refusals. `token_error`: tokens that calls used beyond those they were admitted for.
    `unbooked`: calls that went out before there was a pace.
    """

    declared: Limits = field(default_factory=Limits)
    stated: Limits = field(default_factory=Limits)
    answered: int = 0
    push: Push = Push.NONE
    retry_after: float | None = None
    token_error: float = 0.0
    unbooked: int = 0
    ask: Ask = field(default_factory=Ask)


@dataclass(frozen=True, slots=True)
class Booking:
    """A grant, and the end of the timeline then: it can be given back while nobody booked after it."""

    grant: Grant
    booked_until: datetime


@dataclass(frozen=True, slots=True)
class AccountView:
    """The account as it stands. Moments are seconds from now, negative ones have passed.

    `limits`: what all workers together may use in a minute (the share of a stated limit that is used, and
    the rate that the vendor lets through), None where only the rest was looked at. `stated`: what the vendor
    says. `cuts`: how often the rate was lowered. `hold_seconds`: nothing may be sent for so long.
    """

    limits: Limits | None
    stated: Limits
    cuts: int
    hold_seconds: float
    breaker: Breaker
    booking: Booking | None = None
