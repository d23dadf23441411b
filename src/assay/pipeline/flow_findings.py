"""What one worker has found out about its account since it last told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from assay.domain.account import AccountReport
from assay.domain.pacing import Ask, Limits
from assay.domain.permitted_rate import Push
from assay.domain.rate_limits import RateLimits
from assay.domain.stated_limits import Remainders, stated_limits

# A limit that stays the same is told now and then all the same: what was not heard for an hour is forgotten.
_TOLD_AGAIN_SECONDS: Final = 600.0
_SAME: Final = 0.02


@dataclass(slots=True)
class Findings:
    """Counters between two reports. `stated` is what the account knows of the vendor's limits."""

    declared: Limits
    answered: int = 0
    token_error: float = 0.0
    unbooked: int = 0
    push: Push = Push.NONE
    retry_after: float = 0.0
    stated: Limits = field(default_factory=Limits)
    news: Limits | None = None
    told_at: float = float("-inf")
    remainders: Remainders = field(default_factory=Remainders)

    def heard(self, now: float, told: RateLimits, input_share: float) -> bool:
        """What the headers of a reply say; whether the account should hear of it at once."""
        if self.push is Push.NONE and self.remainders.low(now, told):
            self.push = Push.LOW
        stated = stated_limits(told, input_share)
        if stated == Limits() or self.news is not None:
            return False
        if _same(stated, self.stated) and now - self.told_at < _TOLD_AGAIN_SECONDS:
            return False
        self.news = stated
        return True

    def refused(self, retry_after: float | None) -> None:
        """The vendor refused a call that was sent at the rate that the account knows."""
        self.push = Push.REFUSED
        self.retry_after = max(self.retry_after, retry_after or 0.0)

    def report(self, now: float, ask: Ask) -> AccountReport:
        """Everything, once."""
        report = AccountReport(
            self.declared, self.news or Limits(), self.answered, self.push, self.retry_after or None,
            self.token_error + ask.overdrawn, self.unbooked, ask,
        )  # fmt: skip
        if self.news is not None:
            self.told_at = now
        self.news, self.push, self.retry_after = None, Push.NONE, 0.0
        self.answered, self.token_error, self.unbooked = 0, 0.0, 0
        return report

    def not_told(self, report: AccountReport) -> None:
        """The account did not hear a report: what must not be missed is told again."""
        self.push = max(self.push, report.push)
        self.retry_after = max(self.retry_after, report.retry_after or 0.0)
        self.answered += report.answered
        if self.news is None and report.stated != Limits():
            self.news = report.stated


def _same(one: Limits, other: Limits) -> bool:
    return all(
        new is None or (old is not None and abs(new - old) <= _SAME * old)
        for new, old in (
            (one.requests_per_minute, other.requests_per_minute),
            (one.tokens_per_minute, other.tokens_per_minute),
        )
    )
