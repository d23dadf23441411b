"""Records waiting to be claimed: fresh ones from the intake, and those that somebody else held last time."""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable
from typing import Final

from assay.domain.identity import InputRecord, SourcePosition

# A record that somebody else holds is offered again no sooner than this many seconds later.
_OFFER_AGAIN_SECONDS: Final = 0.25


class Offers:
    """The order in which records are offered. `queue` is the intake's; None in it is its end."""

    def __init__(
        self,
        queue: asyncio.Queue[list[InputRecord] | None],
        *,
        again_seconds: float,
        max_deferred: int,
        is_live: Callable[[SourcePosition], bool],
        dropped: Callable[[InputRecord], None],
    ) -> None:
        self._queue = queue
        self._again = again_seconds
        self._max_deferred = max_deferred
        self._is_live = is_live
        self._dropped = dropped
        self._fresh: deque[InputRecord] = deque()
        self._deferred: list[tuple[float, int, InputRecord]] = []
        self._deferrals = 0
        self._intake_over = False

    @property
    def over(self) -> bool:
        """Whether nothing is left to offer, now or later."""
        self._fetch(1)
        return self._intake_over and not self._fresh and not self._deferred

    @property
    def next_at(self) -> float | None:
        """Loop time at which a deferred record comes up again."""
        return self._deferred[0][0] if self._deferred else None

    def take(self, room: int, *, fresh: bool) -> list[InputRecord]:
        """Up to `room` records; none that are new unless `fresh`, and none while too many are deferred.

        Records of an assignment that has ended are dropped: whoever has the partition now reads them again.
        """
        now = asyncio.get_running_loop().time()
        records: list[InputRecord] = []
        while self._deferred and self._deferred[0][0] <= now and len(records) < room:
            self._offer(heapq.heappop(self._deferred)[2], records)
        if fresh and len(self._deferred) < self._max_deferred:
            self._fetch(room)
            while self._fresh and len(records) < room:
                self._offer(self._fresh.popleft(), records)
        return records

    def _offer(self, record: InputRecord, records: list[InputRecord]) -> None:
        if self._is_live(record.position):
            records.append(record)
        else:
            self._dropped(record)

    def defer(self, record: InputRecord, wait_seconds: float) -> None:
        """Offer the record again: when the other lease may have ended, and now and then before."""
        self._deferrals += 1
        pause = min(max(wait_seconds, _OFFER_AGAIN_SECONDS), self._again)
        at = asyncio.get_running_loop().time() + pause
        heapq.heappush(self._deferred, (at, self._deferrals, record))

    def _fetch(self, room: int) -> None:
        """Move records over from the intake's queue, whose bound is what limits reading ahead."""
        while len(self._fresh) < room and not self._queue.empty():
            records = self._queue.get_nowait()
            if records is None:
                self._intake_over = True
            else:
                self._fresh.extend(records)
