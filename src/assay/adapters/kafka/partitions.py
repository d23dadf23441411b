"""The partitions that a member of a group has just now, as its thread knows them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

# A partition with more open offsets than this is held back alone: one record that waits for ever must not
# make the window of its partition grow for ever.
MOST_OPEN: Final = 20_000


@dataclass(slots=True)
class Assigned:
    """One assignment of one partition. `next_offset`: the next one that may be delivered; None until it is
    known where reading begins. `wanted` and `confirmed`: offsets to commit, and known to be committed.
    `leader_epoch`: of the last record that was taken, or of what is committed; -1 where nobody knows.
    `cut_off`: what lies before the position is gone. `doubts`: how often that, or a position beyond the end,
    was found."""

    partition: int
    epoch: int
    next_offset: int | None = None
    paused: bool = True
    wanted: int = -1
    confirmed: int = -1
    leader_epoch: int = -1
    cut_off: bool = False
    doubts: int = 0

    @property
    def begun(self) -> bool:
        """Whether it is known where reading begins."""
        return self.next_offset is not None


class Partitions:
    """Used by the member's thread alone."""

    def __init__(self) -> None:
        self._assigned: dict[int, Assigned] = {}
        self._epoch = 0

    def __iter__(self) -> Iterator[Assigned]:
        return iter(self._assigned.values())

    def __len__(self) -> int:
        return len(self._assigned)

    def get(self, partition: int | None, epoch: int | None = None) -> Assigned | None:
        """The assignment of a partition; None where it is not ours, or not in this epoch."""
        found = None if partition is None else self._assigned.get(partition)
        return found if found is not None and epoch in (None, found.epoch) else None

    def assign(self, partitions: Collection[int]) -> dict[int, int]:
        """New assignments; their epoch by partition."""
        self._epoch += 1
        for partition in partitions:
            self._assigned[partition] = Assigned(partition, self._epoch)
        return dict.fromkeys(partitions, self._epoch)

    def take(self, partitions: Iterable[int]) -> list[Assigned]:
        """Forget assignments and return them."""
        return [gone for each in partitions if (gone := self._assigned.pop(each, None)) is not None]

    def want(self, due: Iterable[tuple[int, int, int]]) -> None:
        """Note what may be committed: partition, epoch, offset; nothing of an earlier assignment."""
        for partition, epoch, offset in due:
            found = self.get(partition, epoch)
            if found is not None:
                found.wanted = max(found.wanted, offset)

    def confirm(self, offsets: Mapping[int, int]) -> None:
        """The broker has these offsets."""
        for partition, offset in offsets.items():
            found = self.get(partition)
            if found is not None:
                found.confirmed = max(found.confirmed, offset)

    def to_pause(
        self, everything: bool, window: Callable[[int], int]
    ) -> tuple[list[Assigned], list[Assigned]]:
        """Which partitions must be held back from now on, and which go on."""
        pause, resume = [], []
        for each in self:
            hold = everything or not each.begun or window(each.partition) > MOST_OPEN
            if hold and not each.paused:
                pause.append(each)
            elif each.paused and not hold:
                resume.append(each)
        return pause, resume
