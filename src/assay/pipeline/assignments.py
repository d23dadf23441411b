"""Partitions that come and go while a worker runs: where they begin, and what is owed when they end.

The source tells, from its own thread, through `AssignmentHolder`; everything here runs on the worker's loop.
A partition that is taken away: nothing of it is begun any more, calls that are out get a moment to end, what
is done by then is committed, and the rest is left to whoever gets the partition. What this worker has claimed
of it goes on all the same; its finish is fenced, and the offset is no longer ours to commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from assay.pipeline.commits import Commits
from assay.pipeline.lines import Committable, Lines
from assay.ports import SourceStorePort
from assay.telemetry import tell


class Assignments:
    """See `AssignmentHolder`. `underway(partition, epoch)`: records of it in our hands."""

    def __init__(
        self,
        lines: Lines,
        commits: Commits,
        sources: SourceStorePort,
        *,
        source_id: int,
        source: str,
        underway: Callable[[int, int], int],
        wait_seconds: float,
    ) -> None:
        self._lines = lines
        self._commits = commits
        self._sources = sources
        self._source_id = source_id
        self._source = source
        self._underway = underway
        self._wait = wait_seconds
        self._moved = asyncio.Event()

    async def positions(self, partitions: Sequence[int]) -> Mapping[int, int | None]:
        """Where the ledger in PostgreSQL stands, by partition; None where it knows nothing."""
        found = {each: await self._sources.position(self._source_id, each) for each in partitions}
        for partition, position in found.items():
            self._commits.expect(partition, position or 0)
        return found

    def assigned(self, partition: int, epoch: int, start: int, reason: str) -> None:
        """Reading begins at `start`; `reason` says whose word that is.

        To begin at the end leaves out what is there: that is decided once. A worker that ends before anything
        has come would decide it anew, and leave out what came meanwhile.
        """
        if reason == "end":
            self._lines.assign(partition, epoch, begin=start)
        else:
            self._lines.assign(partition, epoch, start)
        tell("partition_assigned", source=self._source, partition=partition, offset=start, reason=reason)

    async def revoked(self, partitions: Mapping[int, int]) -> list[Committable]:
        """The partitions (with their epochs) end. Returns what to commit at the broker, now."""
        for partition, epoch in partitions.items():
            self._lines.close(partition, epoch)
        await self._settle(partitions)
        last = [self._lines.revoke(partition, epoch) for partition, epoch in partitions.items()]
        owed = [each for each in last if each is not None]
        for partition in partitions:
            tell("partition_revoked", source=self._source, partition=partition)
        await self._commits.write(owed)
        return owed

    def lost(self, partitions: Mapping[int, int]) -> None:
        """The partitions belong to somebody else already: nothing is committed."""
        for partition, epoch in partitions.items():
            self._lines.revoke(partition, epoch)
            tell("partition_lost", source=self._source, partition=partition)
        self._moved.set()

    def something_ended(self) -> None:
        """A record of ours has its destination."""
        self._moved.set()

    async def _settle(self, partitions: Mapping[int, int]) -> None:
        """Wait for what is underway, not for long: the group stands still meanwhile."""
        try:
            async with asyncio.timeout(self._wait):
                while any(self._underway(partition, epoch) for partition, epoch in partitions.items()):
                    self._moved.clear()
                    await self._moved.wait()
        except TimeoutError:
            return
