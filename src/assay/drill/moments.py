"""What happens when: a morning of a vendor, from 09:00 to 10:05."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

# Minutes after 09:00.
RESTART: Final = 36
REPLAYED_FROM: Final = 24
PRODUCED_UNTIL: Final = 60
END: Final = 65

# Shares of calls on an ordinary day.
ORDINARY: Final[Mapping[str, float]] = {
    "prose_prefix": 0.0, "string_confidence": 0.0, "extra_field": 0.005, "truncation": 0.01,
    "refusal": 0.01, "server_error": 0.01, "rate_limited": 0.0,
}  # fmt: skip
ERROR_RATE: Final = 0.08


@dataclass(frozen=True, slots=True)
class Moment:
    """`settings` are the vendor's from then on, by its own names."""

    minute: int
    told: str
    settings: Mapping[str, float] = field(default_factory=dict)

    @property
    def clock(self) -> str:
        """The time of day."""
        return clock(self.minute)


MOMENTS: Final[Sequence[Moment]] = (
    Moment(0, "an ordinary morning"),
    Moment(12, "the model starts to put prose before its JSON", {"prose_prefix": 0.3}),
    Moment(18, "confidence becomes a string", {"string_confidence": 0.3}),
    Moment(30, "still nobody has looked"),
    Moment(RESTART, "both workers and the script are killed (-9), started again, and messages replay"),
    Moment(PRODUCED_UNTIL, "no more tickets come"),
)


def clock(minute: float) -> str:
    """The time of day, so many minutes after 09:00."""
    hours, rest = divmod(int(minute), 60)
    return f"{9 + hours:02}:{rest:02}"


def due(minute: float, tickets: int) -> int:
    """How many tickets have come by then: evenly from 09:00 to 10:00."""
    return min(tickets, max(0, int(tickets * minute / PRODUCED_UNTIL)))
