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
# At a pace that refusals have set, fewer of them tell that it is too fast: so many more than the vendor
# refuses when the pace has just been lowered. A busy gateway that refuses one call in fifty however few there
# are must not push the pace down: it would never come back.
_LARGE_AT_PACE: Final = 0.012
_TIMES_USUAL: Final = 2.0
_MOST_AT_PACE: Final = 0.07
_USUAL_CALLS: Final = 50
# What is usual is taken for little until so many calls have shown it.
_UNTOLD_CALLS: Final = 25.0
# In so many seconds after a cut the rate has hardly grown again (permitted_rate.py).
_EASED_SECONDS: Final = 10.0


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
        # Against whole calls: of 2.7 only 2 can ever be out, and it would stay at that for good.
        if before >= self._most or in_flight < int(before) * _FULL:
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
    of a limit when nothing was ever answered, when several come in a row, or when their share is large: the
    idea of DCTCP (Alizadeh et al., "Data Center TCP", 2010), as a threshold. At a pace it is a low one, above
    what is usual with this vendor: the share of refusals among calls sent just after a cut.

    `sent_at` and `cut_at` are seconds of one clock: when the call was sent, when the pace was last lowered.
    """

    __slots__ = ("_answered", "_cut_at", "_eased_calls", "_eased_refusals", "_in_a_row", "_share")

    def __init__(self) -> None:
        self._answered = False
        self._cut_at = float("-inf")
        self._in_a_row = 0
        self._share = 0.0
        self._eased_calls = self._eased_refusals = 0.0

    def answered(self, sent_at: float = 0.0, cut_at: float = float("-inf")) -> None:
        """A call was answered."""
        if cut_at != self._cut_at:
            self._begin_anew(cut_at)
        self._answered = True
        self._in_a_row = 0
        self._share -= self._share / _CALLS_REMEMBERED
        if 0.0 < sent_at - cut_at < _EASED_SECONDS:
            self._eased(0.0)

    def refused(self, sent_at: float = 0.0, cut_at: float = float("-inf"), *, paced: bool = False) -> bool:
        """A call was refused; whether the refusals by now tell of a limit. `paced`: calls already go out at a
        pace that refusals have set."""
        if cut_at != self._cut_at:
            self._begin_anew(cut_at)
        self._in_a_row += 1
        self._share += (1.0 - self._share) / _CALLS_REMEMBERED
        if 0.0 < sent_at - cut_at < _EASED_SECONDS:
            self._eased(1.0)
        return not self._answered or self._in_a_row >= _IN_A_ROW or self._share >= self._large(paced)

    def acted_on(self) -> None:
        """The pace will be lowered: whether the new one is too fast as well, only calls at it can tell."""
        self._begin_anew(self._cut_at)

    def _begin_anew(self, cut_at: float) -> None:
        self._cut_at, self._in_a_row, self._share = cut_at, 0, 0.0

    def _eased(self, refusals: float) -> None:
        self._eased_calls += 1.0 - self._eased_calls / _USUAL_CALLS
        self._eased_refusals += refusals - self._eased_refusals / _USUAL_CALLS

    def _large(self, paced: bool) -> float:
        if not paced:
            return _LARGE_SHARE
        usual = self._eased_refusals / (self._eased_calls + _UNTOLD_CALLS)
        return min(_LARGE_AT_PACE + _TIMES_USUAL * usual, _MOST_AT_PACE)
