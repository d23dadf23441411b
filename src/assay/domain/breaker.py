"""The circuit breaker of a vendor account: closed, open, half open; pure, times in seconds on one clock.

The account's row in PostgreSQL goes through the same states under the same rules (`accounts.sql`); a test
drives the two side by side. Workers watch their own calls (`FailureWatch`) and open the breaker for all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Literal

# How a call ended, as flow control sees it. `success`: the vendor gave an answer to judge, whatever it holds.
# `rate_limited`: 429. `overloaded`: the vendor says that it has too much to do. `transient`: timeout,
# connection, another 5xx. `other`: a refusal or a defect of ours: the vendor is there.
CallEnd = Literal["success", "rate_limited", "overloaded", "transient", "other"]

ENDS_OF_CODES: Final[dict[str, CallEnd]] = {
    "provider_rate_limited": "rate_limited",
    "provider_overloaded": "overloaded",
    "provider_timeout": "transient",
    "provider_connection": "transient",
    "provider_server_error": "transient",
    "provider_bad_reply": "transient",
}
"""How a call with this failure code ended; `other` for every code that is not here."""

_SLOTS: Final = 6
# 2**30 times any base is beyond every cap.
_MOST_DOUBLINGS: Final = 30


class BreakerState(StrEnum):
    """Whether the account's calls go out."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


@dataclass(frozen=True, slots=True)
class BreakerRules:
    """When it opens, and for how long. Times are in seconds.

    It opens after `consecutive` failures in a row, or when at least `share` of at least `least_calls` calls
    of the last `window` failed. It stays open for min(`cap`, `base` * 2**n), the n-th time in a row: an
    opening within `calm` after it closed is one more in the row. `probe_lease`: how long one worker may take
    for its probe; it must outlive a call.
    """

    consecutive: int = 5
    share: float = 0.5
    least_calls: int = 20
    window: float = 30.0
    base: float = 5.0
    cap: float = 60.0
    calm: float = 60.0
    probe_lease: float = 90.0

    def __post_init__(self) -> None:
        for name in ("window", "base", "cap", "probe_lease"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be a finite number of seconds above 0")
        if self.cap < self.base or self.calm < 0:
            raise ValueError("cap must not be below base, nor calm below 0")
        if self.consecutive < 1 or self.least_calls < 1 or not 0 < self.share <= 1:
            raise ValueError("consecutive and least_calls are 1 or more, share is above 0 and at most 1")


def open_seconds(rules: BreakerRules, streak: int, chance: float, retry_after: float | None = None) -> float:
    """How long it stays open for the `streak`-th time in a row (from 0).

    Up to a quarter less by `chance` in [0, 1), so that accounts that fell over together do not come back
    together; never less than what the vendor asked for.
    """
    longest = min(rules.cap, rules.base * 2.0 ** min(max(streak, 0), _MOST_DOUBLINGS))
    return max(longest * (1.0 - 0.25 * chance), retry_after or 0.0)


@dataclass(frozen=True, slots=True)
class Failure:
    """What opens it: the last failure's code, `chance` in [0, 1), and what the vendor asked for (seconds)."""

    reason: str
    chance: float
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class Breaker:
    """The state at one moment.

    `until`: when a probe may begin (open), when the prober's lease ends (half open). `streak`: openings in a
    row before the next. `opened_at`: since when not a single call is known to have gone through; `closed_at`:
    when it last closed. Moves that are not allowed return the breaker as it is.
    """

    state: BreakerState = BreakerState.CLOSED
    until: float | None = None
    prober: str | None = None
    streak: int = 0
    reason: str | None = None
    opened_at: float | None = None
    closed_at: float | None = None

    def may_probe(self, now: float) -> bool:
        """Whether a worker may take the probe: it is due, or whoever had it is overdue."""
        return self.state is not BreakerState.CLOSED and self.until is not None and now >= self.until

    def trip(self, now: float, rules: BreakerRules, failure: Failure) -> Breaker:
        """A worker has seen enough failures: closed → open."""
        if self.state is not BreakerState.CLOSED:
            return self
        calm = self.closed_at is None or now - self.closed_at >= rules.calm
        return self._open(now, rules, 0 if calm else self.streak, failure)

    def begin_probe(self, now: float, rules: BreakerRules, prober: str) -> Breaker:
        """One worker takes the one probe: open → half open."""
        if not self.may_probe(now):
            return self
        return replace(self, state=BreakerState.HALF_OPEN, until=now + rules.probe_lease, prober=prober)

    def probe_succeeded(self, now: float, prober: str) -> Breaker:
        """The vendor answered: half open → closed."""
        if not self._probed_by(prober):
            return self
        return Breaker(streak=self.streak, closed_at=now)

    def probe_failed(self, now: float, rules: BreakerRules, prober: str, failure: Failure) -> Breaker:
        """It did not: half open → open, for longer."""
        if not self._probed_by(prober):
            return self
        return self._open(now, rules, self.streak, failure)

    def probe_unused(self, now: float, prober: str) -> Breaker:
        """The prober had nothing to call: half open → open, the next probe is due at once."""
        if not self._probed_by(prober):
            return self
        return replace(self, state=BreakerState.OPEN, until=now, prober=None)

    def _probed_by(self, prober: str) -> bool:
        return self.state is BreakerState.HALF_OPEN and self.prober == prober

    def shifted(self, seconds: float) -> Breaker:
        """The same on a clock that shows `seconds` more."""
        return replace(
            self,
            until=_later(self.until, seconds),
            opened_at=_later(self.opened_at, seconds),
            closed_at=_later(self.closed_at, seconds),
        )

    def _open(self, now: float, rules: BreakerRules, streak: int, failure: Failure) -> Breaker:
        return Breaker(
            BreakerState.OPEN,
            until=now + open_seconds(rules, streak, failure.chance, failure.retry_after),
            streak=streak + 1,
            reason=failure.reason,
            opened_at=self.opened_at if self.opened_at is not None else now,
            closed_at=self.closed_at,
        )


def _later(moment: float | None, seconds: float) -> float | None:
    return None if moment is None else moment + seconds


class FailureWatch:
    """Whether one worker's calls fail so often that the breaker must open.

    The window is kept in six slots. A 429 is not told here: it says that the vendor is there.
    """

    __slots__ = ("_calls", "_consecutive", "_failed", "_rules", "_slot", "_slot_seconds")

    def __init__(self, rules: BreakerRules) -> None:
        self._rules = rules
        self._slot_seconds = rules.window / _SLOTS
        self.reset()

    def reset(self) -> None:
        """Forget everything: the breaker has opened or closed."""
        self._consecutive = 0
        self._slot = -1
        self._calls = [0] * _SLOTS
        self._failed = [0] * _SLOTS

    def succeeded(self, now: float) -> None:
        """A call brought an answer."""
        self._consecutive = 0
        slot = int(now / self._slot_seconds)
        if slot != self._slot:
            self._turn(slot)
        self._calls[slot % _SLOTS] += 1

    def failed(self, now: float) -> bool:
        """A call failed; True: open the breaker."""
        self._consecutive += 1
        slot = int(now / self._slot_seconds)
        if slot != self._slot:
            self._turn(slot)
        self._calls[slot % _SLOTS] += 1
        self._failed[slot % _SLOTS] += 1
        if self._consecutive >= self._rules.consecutive:
            return True
        calls = sum(self._calls)
        return calls >= self._rules.least_calls and sum(self._failed) >= self._rules.share * calls

    def _turn(self, slot: int) -> None:
        """Empty the slots between the last call and this one."""
        for passed in range(max(self._slot + 1, slot - _SLOTS + 1), slot + 1):
            self._calls[passed % _SLOTS] = self._failed[passed % _SLOTS] = 0
        self._slot = slot
