"""The most that was admitted in any window of a given length."""

from __future__ import annotations

from collections import deque


class SlidingMost:
    """Calls and tokens admitted in the last `seconds`, and the most there ever were.

    A window is half open: (t - seconds, t]. Adding costs constant time on average; memory is one entry per
    call of the window.
    """

    __slots__ = ("_amounts", "_seconds", "_times", "_total", "most_calls", "most_tokens")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._times: deque[float] = deque()
        self._amounts: deque[int] = deque()
        self._total = 0
        self.most_calls = 0
        self.most_tokens = 0

    def add(self, now: float, tokens: int) -> None:
        """One more call at `now`, which never goes back."""
        times, amounts = self._times, self._amounts
        edge = now - self._seconds
        while times and times[0] <= edge:
            times.popleft()
            self._total -= amounts.popleft()
        times.append(now)
        amounts.append(tokens)
        self._total += tokens
        self.most_calls = max(self.most_calls, len(times))
        self.most_tokens = max(self.most_tokens, self._total)
