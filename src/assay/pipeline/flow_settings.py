"""Settings of flow control, checked together at start."""

from __future__ import annotations

from dataclasses import dataclass, field

from assay.domain.breaker import BreakerRules
from assay.domain.failures import ConfigurationError
from assay.domain.pacing import Limits, PaceRules


@dataclass(frozen=True, slots=True)
class FlowSettings:
    """How one worker treats its vendor account. Times are in seconds.

    `concurrency`: most calls in flight. `first_window`: how many at once before the vendor has answered any.
    `declared`: limits per minute that the user names; the vendor's own count as well, the smaller holds.
    `retry_share`, `retries_per_second`, `most_retries`: see `RetryBudget`. `sync_every`: how often the worker
    and the account's row tell each other what they know. `ahead`: how much work may wait for its permit, in
    seconds of the account's pace.
    """

    concurrency: int = 32
    first_window: int = 16
    declared: Limits = field(default_factory=Limits)
    breaker: BreakerRules = field(default_factory=BreakerRules)
    pace: PaceRules = field(default_factory=PaceRules)
    retry_share: float = 0.2
    retries_per_second: float = 1.0
    most_retries: float = 100.0
    sync_every: float = 1.0
    ahead: float = 2.0

    def __post_init__(self) -> None:
        if self.concurrency < 1 or self.first_window < 1:
            raise ConfigurationError("Concurrency and the first window are 1 or more.")
        if self.sync_every <= 0 or self.ahead <= 0:
            raise ConfigurationError("sync_every and ahead must be more than 0 seconds.")
        if not 0 <= self.retry_share <= 1 or self.retries_per_second <= 0 or self.most_retries < 1:
            raise ConfigurationError(
                "The share of retries is between 0 and 1, retries_per_second above 0, most_retries 1 or more."
            )
