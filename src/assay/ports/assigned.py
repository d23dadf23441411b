"""Sources whose partitions come and go: topics."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol, runtime_checkable


class AssignmentHolder(Protocol):
    """Whoever works on a source whose partitions come and go; called on the worker's event loop.

    `positions`: the first offset without a durable destination that PostgreSQL knows of, by partition.
    `assigned`: a partition is read from `start` on, in a new epoch; `reason` tells whose position that is.
    `revoked`: partitions (with their epochs) end; answers, within a few seconds, what may be committed of
    them. `lost`: they are somebody else's already, nothing may be committed.
    """

    async def positions(self, partitions: Sequence[int]) -> Mapping[int, int | None]: ...

    def assigned(self, partition: int, epoch: int, start: int, reason: str) -> None: ...

    async def revoked(self, partitions: Mapping[int, int]) -> Sequence[tuple[int, int, int]]: ...

    def lost(self, partitions: Mapping[int, int]) -> None: ...


@runtime_checkable
class AssignedSource(Protocol):
    """A source that shares its partitions with other workers: a topic, read as a member of a group.

    `attach` is called before `read`, which then has no end but `stop`; `window` tells how many offsets of a
    partition are open, and one with too many is held back alone. `commit` takes (partition, epoch, offset):
    everything below the offset is done; what belongs to an assignment that has ended is left out. `hold_back`
    names the reasons why nothing should be delivered just now; none: go on. `stop` leaves the group, and
    commits what is done unless told not to.
    """

    def attach(self, holder: AssignmentHolder, window: Callable[[int], int]) -> None: ...

    async def commit(self, due: Sequence[tuple[int, int, int]]) -> None: ...

    def hold_back(self, reasons: Collection[str]) -> None: ...

    async def stop(self, *, commit: bool) -> None: ...
