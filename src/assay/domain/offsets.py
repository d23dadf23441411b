"""The offset ledger: which offset of a partition may be committed.

One ledger serves one assignment of one partition, Kafka and files alike. It knows the offsets that were
*delivered*, not a range: a compacted topic and transaction markers leave gaps, and a gap never holds back
the commit. An offset is *done* once its record has a durable destination; only the highest contiguous run
of done offsets is committable, so a record that finishes first never leapfrogs an earlier one.

Memory is that of the window between the oldest unresolved and the highest delivered offset; each offset
enters and leaves it once, so every operation costs O(1), amortised. Not safe for use by several threads.
"""

from __future__ import annotations

from collections import deque


class OffsetError(ValueError):
    """A caller broke the ledger's rules: a defect of the caller, never of the data."""


class OffsetLedger:
    """What one assignment (`epoch`) of one partition has delivered, finished and may commit."""

    def __init__(self, epoch: int = 0) -> None:
        self._epoch = epoch
        # Delivered offsets from the oldest unresolved on, in order; each is in exactly one of the two sets.
        self._window: deque[int] = deque()
        self._unresolved: set[int] = set()
        self._resolved: set[int] = set()
        self._first: int | None = None
        self._highest: int | None = None
        self._committable: int | None = None
        self._revoked = False

    @property
    def epoch(self) -> int:
        """The assignment this ledger belongs to."""
        return self._epoch

    @property
    def revoked(self) -> bool:
        """Whether the assignment has ended."""
        return self._revoked

    @property
    def pending(self) -> int:
        """Delivered offsets that are not done."""
        return len(self._unresolved)

    @property
    def window(self) -> int:
        """Offsets held in memory: a caller that sees it grow stops delivering."""
        return len(self._window)

    @property
    def oldest_unresolved(self) -> int | None:
        """The offset that holds the commit back."""
        return self._window[0] if self._window else None

    @property
    def highest_delivered(self) -> int | None:
        """The last offset delivered in this assignment."""
        return self._highest

    def deliver(self, offset: int) -> bool:
        """Notes that the source handed out `offset`. False: a duplicate, which changes nothing.

        Raises `OffsetError` for an offset that runs backwards (below the first one, or into a gap of the
        window) and after `revoke()`: committing past it would lose a record.
        """
        if self._revoked:
            raise OffsetError("delivery after the assignment was revoked")
        if offset < 0:
            raise OffsetError("an offset is 0 or more")
        if self._highest is None or offset > self._highest:
            if self._first is None:
                self._first = offset
            self._highest = offset
            self._window.append(offset)
            self._unresolved.add(offset)
            return True
        if not self._known(offset):
            raise OffsetError(f"offset {offset} was delivered after {self._highest}")
        return False

    def done(self, offset: int, epoch: int) -> bool:
        """Notes that the record at `offset` has a durable destination. False: it changed nothing.

        That is so for a duplicate, for another epoch's offset, and after `revoke()`: late results of an
        earlier assignment never touch offsets. Raises `OffsetError` for one that was never delivered.
        """
        if self._revoked or epoch != self._epoch:
            return False
        if offset not in self._unresolved:
            if not self._known(offset):
                raise OffsetError(f"offset {offset} is done but was never delivered")
            return False
        self._unresolved.remove(offset)
        self._resolved.add(offset)
        while self._window and self._window[0] in self._resolved:
            head = self._window.popleft()
            self._resolved.remove(head)
            self._committable = head + 1
        return True

    def committable(self) -> int | None:
        """The next offset to read: the highest contiguous done offset plus one. None: nothing to commit."""
        return None if self._revoked else self._committable

    def revoke(self) -> int | None:
        """Ends the assignment and forgets its window. Returns what may still be committed, at once."""
        last = self.committable()
        self._revoked = True
        self._window.clear()
        self._unresolved.clear()
        self._resolved.clear()
        return last

    def _known(self, offset: int) -> bool:
        """Whether `offset` was delivered. Below the window that is not remembered: all there is resolved."""
        if offset in self._unresolved or offset in self._resolved:
            return True
        below = self._first is not None and offset >= self._first
        return below and self._committable is not None and offset < self._committable
