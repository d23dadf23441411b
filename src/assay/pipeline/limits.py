"""Settings of a worker that decide about time and amounts, checked together at start."""

from __future__ import annotations

from dataclasses import dataclass

from assay.domain.failures import ConfigurationError


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """How much a worker takes on, and for how long. Times are in seconds.

    `concurrency`: model calls at once. `batch`: most records of one claim or finish. `lease_seconds` must
    outlive a call and its correction even if one renewal (every third of it) fails. `drain_seconds`: how
    long a graceful stop waits for calls in flight. `max_parked`: parked tasks from which on nothing new is
    taken from the source. `max_invalid_share`: share of malformed input above which reading stops,
    of the last `invalid_window` items and, where the source has an end, of all.
    `memory_bytes`: record texts in memory from which on nothing more is read. `revoke_seconds`: how long a
    partition that is taken away waits for what is underway.
    """

    concurrency: int = 32
    batch: int = 500
    lease_seconds: float = 90.0
    call_timeout_seconds: float = 60.0
    finish_every_seconds: float = 0.02
    commit_every_seconds: float = 1.0
    drain_seconds: float = 30.0
    poll_seconds: float = 1.0
    max_parked: int = 1000
    max_invalid_share: float = 0.5
    invalid_window: int = 1000
    memory_bytes: int = 256 * 1024 * 1024
    revoke_seconds: float = 3.0

    def __post_init__(self) -> None:
        if self.concurrency < 1 or self.batch < 1:
            raise ConfigurationError("Concurrency and batch are 1 or more.")
        for name in ("lease_seconds", "call_timeout_seconds", "poll_seconds"):
            if getattr(self, name) <= 0:
                raise ConfigurationError(f"{name} must be more than 0 seconds.")
        if self.memory_bytes < 1:
            raise ConfigurationError("memory_bytes must be 1 or more.")
        if self.invalid_window < 1:
            raise ConfigurationError("invalid_window must be 1 or more.")
        if self.drain_seconds < 0:
            raise ConfigurationError("drain_seconds must be 0 seconds or more.")

    @property
    def claim_ahead(self) -> int:
        """Tasks held beside those in slots, so that no slot waits for a claim: a quarter of the slots, but a
        whole claim where slots are few."""
        return max(self.concurrency // 4, min(self.batch, self.concurrency))
