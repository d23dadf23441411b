"""How many retries one worker may make now: a share of its calls, and a little always; pure.

A token bucket. A first call adds `share` of a token, time adds `per_second`, a retry takes one, and a retry
that brings an answer gives it back: while the vendor is well, retries are free; while it is not, they are a
bounded addition to its load. The share of each worker's own calls adds up to the share of all calls, so the
workers need not speak about it; only the little that is always allowed counts once per worker.
"""

from __future__ import annotations

import math


class RetryBudget:
    """Retries of one pipeline version in one worker. `now` is in seconds on one clock."""

    __slots__ = ("_at", "_most", "_per_second", "_share", "_tokens")

    def __init__(
        self, now: float, *, share: float = 0.2, per_second: float = 1.0, most: float = 100.0
    ) -> None:
        if not (0 <= share <= 1 and per_second > 0 and most >= 1):
            raise ValueError("share is between 0 and 1, per_second above 0, most 1 or more")
        if not (math.isfinite(per_second) and math.isfinite(most)):
            raise ValueError("per_second and most must be finite")
        self._share = share
        self._per_second = per_second
        self._most = most
        self._tokens = min(max(per_second * 10.0, 1.0), most)
        self._at = now

    def allowed(self, now: float) -> int:
        """Retries that may be claimed now."""
        passed = now - self._at
        if passed > 0:
            self._at = now
            self._add(passed * self._per_second)
        return int(self._tokens)

    def called(self, *, first: int = 0, retries: int = 0) -> None:
        """So many first calls and retries were claimed. More retries than allowed are a debt."""
        self._add(first * self._share)
        self._tokens -= retries

    def retry_succeeded(self) -> None:
        """A retry brought an answer: it costs nothing."""
        self._add(1.0)

    def _add(self, tokens: float) -> None:
        self._tokens = min(self._tokens + tokens, self._most)
