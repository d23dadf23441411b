"""Pages of the work list: parked work in the order in which it is looked at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

# The list before its first row, and behind its last one.
_START: Final = ("-infinity", 0)
_END: Final = ("infinity", 2**62)
# Every so many looks, records of low priority come first: a steady stream of normal ones must not keep them
# waiting for ever.
_LOW_FIRST_EVERY: Final = 8

Candidate = tuple[int, Any, int | None, bool | None]
"""A task, when it was due (None: its worker died), a lease to end, and whether its priority is low."""


class Page(NamedTuple):
    """Where a page begins, normal and low priority apart, and how much it may hold."""

    low_first: bool
    most: int
    retries: int
    max_bytes: int
    after: tuple[Any, int] = _START
    low_after: tuple[Any, int] = _START

    def parameters(self) -> dict[str, object]:
        """The page as the query wants it."""
        return {
            "low_first": self.low_first, "most": self.most, "retries": max(self.retries, 0),
            "bytes": self.max_bytes, "after_due": self.after[0], "after_task": self.after[1],
            "low_after_due": self.low_after[0], "low_after_task": self.low_after[1],
        }  # fmt: skip

    def following(self, candidates: Sequence[Candidate]) -> Page | None:
        """The page behind the candidates of this one; None where they were the last."""
        parked = [
            (low is not self.low_first, due, task) for task, due, _, low in candidates if due is not None
        ]
        if not parked or len(candidates) < self.most:
            return None
        # What comes second is looked at once nothing is left of what comes first.
        second, due, task = max(parked)
        if second is self.low_first:
            return self._replace(after=(due, task), low_after=_END if second else self.low_after)
        return self._replace(low_after=(due, task), after=_END if second else self.after)


def first_page(look: int, most: int, retries: int, max_bytes: int) -> Page:
    """The first page of a worker's `look`, counted from 1."""
    return Page(look % _LOW_FIRST_EVERY == 0, most, retries, max_bytes)
