"""How many calls one worker has in flight at once: additive increase, multiplicative decrease; pure.

Chiu and Jain, "Analysis of the Increase and Decrease Algorithms for Congestion Avoidance in Computer
Networks", 1989; the first rise is TCP's slow start, and a window that nobody fills does not grow (RFC 7661).
"""

from __future__ import annotations

from typing import Final

_FULL: Final = 0.8
_CALLS_REMEMBERED: Final = 200
_IN_A_ROW: Final = 4
_LARGE_SHARE: Final = 0.1
# At a pace that refusals have set, fewer of them tell that it is too fast. A vendor that refuses one call in
# fifty whatever the pace (a busy gateway) must not push it down: it would never come back.
_SHARE_AT_PACE: Final = 0.05


class Window:
    """The number of calls in flight that are allowed now, from 1 to `most`.

    It starts at `first` and grows by one for each success, that is it doubles in a round trip, until the
    vendor first pushes back; from then on by one for each window of successes. A push-back takes it to
    `decrease` of its size, once for all calls that were sent before it.
    """

    __slots__ = ("_cut_at", "_decrease", "_most", "_size", "_slow_start")

    def __init__(self, most: int, *, first: int | None = None, decrease: float = 0.7) -> None:
        if most < 1 or (first is not None and first < 1):
            raise ValueError("a window holds 1 call or more")
        if not 0 < decrease < 1:
            raise ValueError("decrease must be between 0 and 1")
        self._most = most
        self._size = float(min(first or most, most))
        self._decrease = decrease
        self._slow_start = True
        self._cut_at = float("-inf")

    @property
    def size(self) -> int:
        """Calls that may be in flight."""
        return int(self._size)

    def succeeded(self, in_flight: int) -> bool:
        """A call succeeded while `in_flight` (itself included) were out; whether one more may be out now."""
        before = self._size
        if before >= self._most or in_flight < before * _FULL:
            return False
        self._size = min(before + (1.0 if self._slow_start else 1.0 / before), float(self._most))
        return int(self._size) > int(before)

    def pushed_back(self, now: float, sent_at: float, *, needed: float = 0.0) -> bool:
        """The vendor refused a call sent at `sent_at`; False where an earlier cut already answers it.

        `needed` are the calls in flight that the permitted rate takes (rate times latency). While a rate
        limits the calls it is the rate that gives way, and the window closes no further than that.
        """
        if sent_at <= self._cut_at:
            return False
        self._cut_at = now
        self._slow_start = False
        self._size = max(self._size * self._decrease, min(self._size, needed), 1.0)
        return True


class RefusalShare:
    """Tells a vendor that has had enough from one that refuses a call now and then.

    A refusal among many answers is that record's own affair; to close the window for each of them would leave
    a fraction of it (TCP's old ailment: random losses of a few percent leave little of its rate). They tell
    of a limit when two come before any answer, when several come in a row, or when their share is large: the
    idea of DCTCP (Alizadeh et al., "Data Center TCP", 2010), as a threshold.
    """

    __slots__ = ("_answered", "_in_a_row", "_share")

    def __init__(self) -> None:
        self._answered = False
        self._in_a_row = 0
        self._share = 0.0

    def answered(self) -> None:
        """A call was answered."""
        self._answered = True
        self._in_a_row = 0
        self._share -= self._share / _CALLS_REMEMBERED

    def refused(self, *, paced: bool = False) -> bool:
        """A call was refused; whether the refusals by now tell of a limit. `paced`: calls already go out at a
        pace that refusals have set."""
        self._in_a_row += 1
        self._share += (1.0 - self._share) / _CALLS_REMEMBERED
        large = _SHARE_AT_PACE if paced else _LARGE_SHARE
        at_first = not self._answered and self._in_a_row > 1
        return at_first or self._in_a_row >= _IN_A_ROW or self._share >= large

    def acted_on(self) -> None:
        """The pace was lowered: whether the new one is too fast as well, only calls at it can tell."""
        self._in_a_row, self._share = 0, 0.0
