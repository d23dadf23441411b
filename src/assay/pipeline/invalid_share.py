"""How much of a source is malformed: over its last items, and over all of a file."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

# Below this many items a share says nothing; at a source's end fewer have to do.
LEAST: Final = 100
LEAST_AT_THE_END: Final = 10


@dataclass(frozen=True, slots=True)
class MostlyInvalid:
    """`malformed` of `items` were no records; `error_type` was the most frequent reason, `count` times."""

    malformed: int
    items: int
    error_type: str
    count: int


@dataclass(slots=True)
class _Counted:
    """Items that are looked at together, and why the malformed ones among them are."""

    items: int = 0
    types: Counter[str] = field(default_factory=Counter)

    def add(self, error_type: str | None, sign: int = 1) -> None:
        self.items += sign
        if error_type is not None:
            self.types[error_type] += sign

    def over(self, share: float, least: int) -> MostlyInvalid | None:
        malformed = self.types.total()
        if self.items < least or malformed <= self.items * share:
            return None
        error_type, count = max(self.types.items(), key=lambda each: (each[1], each[0]))
        return MostlyInvalid(malformed, self.items, error_type, count)


class InvalidShare:
    """Tells when more than `most` (a share) of a source's last `window` items is malformed.

    With `whole`, for a source that has an end, more than that share of all its items is too much as well: of
    a stream that has run for days no share of all says anything. What was once too much stays so.
    """

    def __init__(self, most: float, *, window: int, whole: bool) -> None:
        self._most = most
        self._least = min(LEAST, window)
        self._window = window
        self._last: deque[str | None] = deque()
        self._recent = _Counted()
        self._all = _Counted() if whole else None
        self.found: MostlyInvalid | None = None

    def note(self, error_types: Iterable[str | None]) -> None:
        """Items in their order: None for a record, else why it is none."""
        for error_type in error_types:
            self._last.append(error_type)
            self._recent.add(error_type)
            if len(self._last) > self._window:
                self._recent.add(self._last.popleft(), -1)
            if self._all is not None:
                self._all.add(error_type)
            if error_type is not None and self.found is None:
                self._look(self._least)

    def end(self) -> None:
        """The source has ended: a few items say something now."""
        if self.found is None:
            self._look(LEAST_AT_THE_END)

    def _look(self, least: int) -> None:
        self.found = self._recent.over(self._most, least)
        if self.found is None and self._all is not None:
            self.found = self._all.over(self._most, least)
