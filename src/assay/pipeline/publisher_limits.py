"""How a publisher works: batch, lease, pauses."""

from __future__ import annotations

from dataclasses import dataclass

from assay.domain.failures import ConfigurationError

# A batch is sent only with so many seconds of lease beyond the sink's own time limit.
MARGIN_SECONDS = 1.0


def shortest_lease(send_seconds: float) -> float:
    """Seconds of a lease that outlasts a batch of a sink with this time limit: two thirds of it are left."""
    return 1.6 * (send_seconds + MARGIN_SECONDS)


@dataclass(frozen=True, slots=True)
class PublisherLimits:
    """Seconds, and numbers of events.

    `lease_seconds`: after which a dead publisher's buckets are taken over. `turn_seconds`: between looks at
    how buckets are shared. `poll_seconds`: between looks at an empty outbox. `look_seconds`: between looks at
    the backlog.
    """

    batch: int = 1000
    lease_seconds: float = 30.0
    turn_seconds: float = 2.0
    poll_seconds: float = 0.25
    look_seconds: float = 5.0
    first_pause: float = 0.5
    longest_pause: float = 30.0

    def check(self, send_seconds: float) -> None:
        """Raises `ConfigurationError` for a lease that a batch could outlive."""
        least = shortest_lease(send_seconds)
        if self.lease_seconds < least:
            raise ConfigurationError(
                f"A lease of {self.lease_seconds:g} seconds is too short for a sink that may take "
                f"{send_seconds:g}: set --lease to {least:g} or more."
            )
