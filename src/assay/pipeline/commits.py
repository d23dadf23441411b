"""Commits of offsets: to the ledger in PostgreSQL first, then to where the source keeps them itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from assay.pipeline.lines import Committable, Lines
from assay.ports import Probe, SourceStorePort

Upstream = Callable[[Sequence[Committable]], Awaitable[None]]


class Commits:
    """What is done is committed now and then. `upstream`: the source's own positions, where it has any."""

    def __init__(
        self,
        lines: Lines,
        sources: SourceStorePort,
        *,
        source_id: int,
        probe: Probe,
        upstream: Upstream | None = None,
    ) -> None:
        self._lines = lines
        self._sources = sources
        self._source_id = source_id
        self._probe = probe
        self._upstream = upstream
        # How far the database has told us that a partition was read, our own commits included.
        self._floors: dict[int, int] = {}

    def expect(self, partition: int, position: int) -> None:
        """The database knows the partition up to there. If it ever knows less, a commit says so and ends the
        work: it has gone back, and nobody would read again what it has forgotten."""
        self._floors[partition] = position

    async def regularly(self, every: float, then: Callable[[], Awaitable[object]]) -> None:
        """Commit every so many seconds, until cancelled."""
        while True:
            await asyncio.sleep(every)
            await self.now()
            await then()

    async def now(self) -> None:
        """Commit what may be committed."""
        due = self._lines.committable()
        if not due:
            return
        self._probe("before_commit_offset")
        await self.write(due)
        if self._upstream is not None:
            await self._upstream(due)
        for each in due:
            self._lines.committed(each)
        self._probe("after_commit_offset")

    async def write(self, due: Sequence[Committable]) -> None:
        """The ledger in PostgreSQL. After a restore of the database it may lag behind the source's own."""
        for each in due:
            floor = self._floors.get(each.partition, 0)
            await self._sources.commit(self._source_id, each.offset, each.partition, floor=floor)
            self._floors[each.partition] = max(floor, each.offset)
