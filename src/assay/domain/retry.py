"""When a transient failure is tried again: exponential backoff with full jitter, pure.

Chance and time are passed in. The decision is a value: park for so long, or give up and why.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

GiveUpCode = Literal["attempts_exhausted", "age_exhausted"]

# 2**1023 is the largest power of two that a float holds; the cap is reached long before.
_MAX_EXPONENT: Final = 1023


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Limits of one task's retries. Times are in seconds.

    The window of try n (1-based) is min(`cap`, `base` * 2**(n-1)). A provider's Retry-After above
    `max_retry_after` is read as `max_retry_after`. Raises `ValueError` for limits that are no limits.
    """

    base: float = 1.0
    cap: float = 60.0
    max_attempts: int = 5
    max_age: float = 24 * 3600.0
    max_retry_after: float = 3600.0

    def __post_init__(self) -> None:
        for name in ("base", "cap", "max_age", "max_retry_after"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be a finite number of seconds above 0")
        if self.cap < self.base:
            raise ValueError("cap must not be below base")
        if self.max_attempts < 1:
            raise ValueError("max_attempts must be 1 or more")


class Park(NamedTuple):
    """Try again in `delay_seconds`. `counts_attempt`: this failure used up one of the attempts."""

    delay_seconds: float
    counts_attempt: bool


class GiveUp(NamedTuple):
    """No further try; the task is quarantined under `code`."""

    code: GiveUpCode


def backoff_window(policy: RetryPolicy, tries: int) -> float:
    """Upper end of the delay (seconds) after `tries` failed tries (1 or more)."""
    return min(policy.cap, policy.base * 2.0 ** min(max(tries, 1) - 1, _MAX_EXPONENT))


def decide_retry(
    policy: RetryPolicy,
    *,
    attempts: int,
    tries: int,
    age_seconds: float,
    counts_attempt: bool,
    chance: float,
    retry_after: float | None = None,
) -> Park | GiveUp:
    """What to do after a transient failure.

    `attempts` are the counted attempts before this failure, which adds one if `counts_attempt`. `tries`
    are the failed tries in a row, this one and the uncounted ones included: they drive the backoff, so
    that a provider that limits the rate is left alone for longer each time. `age_seconds` is the time
    since the first failure, without the time in which attempts and age stood still. `chance` is uniform
    in [0, 1). The delay is chance * window (full jitter: Marc Brooker, "Exponential Backoff And Jitter",
    AWS Architecture Blog, 2015). `retry_after` is a lower bound with the jitter on top of it, so that
    tasks that were told the same moment do not come back at once.
    """
    if not 0.0 <= chance < 1.0:
        raise ValueError("chance must be in [0, 1)")
    if counts_attempt and attempts + 1 >= policy.max_attempts:
        return GiveUp("attempts_exhausted")
    if not age_seconds < policy.max_age:
        return GiveUp("age_exhausted")
    jitter = chance * backoff_window(policy, tries)
    return Park(_lower_bound(policy, retry_after) + jitter, counts_attempt)


def _lower_bound(policy: RetryPolicy, retry_after: float | None) -> float:
    if retry_after is None or math.isnan(retry_after):
        return 0.0
    return min(max(retry_after, 0.0), policy.max_retry_after)
