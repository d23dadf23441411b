"""Where a read of the outbox may begin: below it a bucket is empty for good.

An optimisation alone. While somebody holds an old snapshot (a backup, an audit) deleted events cannot be
cleaned away, and every read from the beginning would pass them by, ever more slowly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from assay.adapters.postgres.session import columns
from assay.domain.outbox import BUCKETS

_EVERY_SECONDS: Final = 1.0
# Then reads begin at the beginning once: a database that was restored under us draws old ids again.
_FORGET_SECONDS: Final = 60.0
_NEVER: Final = 2**62


class Floors:
    """The floors of all buckets, and what the next look will prove."""

    def __init__(self) -> None:
        self._next_look = self._forget_at = 0.0
        self._forget()

    def _forget(self) -> None:
        self._floors = [0] * BUCKETS
        self._drawn: int | None = None
        self._mark, self._mark_xmax = 0, _NEVER

    def due(self, now: float) -> bool:
        """Whether to look again, by a monotonic clock in seconds."""
        if now < self._next_look:
            return False
        self._next_look = now + _EVERY_SECONDS
        if now >= self._forget_at:
            self._forget_at = now + _FORGET_SECONDS
            self._forget()
        return True

    def terms(self) -> dict[str, Any]:
        """Parameters of a read."""
        return dict(columns(list(enumerate(self._floors)), ("floor_buckets", "floors")))

    def question(self) -> dict[str, Any]:
        """Parameters of a look."""
        return self.terms() | {"mark": self._mark, "mark_xmax": self._mark_xmax}

    def learn(self, rows: Sequence[tuple[int, int, int, int, bool]]) -> None:
        """Take in a look: bucket, floor, last id drawn, next transaction, whether the mark is proven."""
        for bucket, floor, _, _, _ in rows:
            self._floors[bucket] = floor
        _, _, drawn, xmax, settled = rows[0]
        # A mark is kept until the transactions that were under way at it have ended.
        if self._drawn is not None and (settled or self._mark_xmax == _NEVER):
            self._mark, self._mark_xmax = self._drawn, xmax
        self._drawn = drawn
