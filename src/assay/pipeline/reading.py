"""The source's side of a worker: what was read, where it stands, and what may be committed of it.

A file is one line of offsets. A topic is one for each partition that this member of the group has; it is also
told when to hold back, and left in good order whatever happened.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass

from assay.domain.identity import InputRecord
from assay.pipeline.assignments import Assignments
from assay.pipeline.backpressure import Backpressure
from assay.pipeline.commits import Commits
from assay.pipeline.intake import Intake
from assay.pipeline.invalid_share import InvalidShare
from assay.pipeline.limits import WorkerLimits
from assay.pipeline.lines import Lines
from assay.pipeline.memory import MemoryBudget, size_of
from assay.pipeline.offers import Offers
from assay.pipeline.progress import Progress
from assay.ports import AssignedSource, Probe, SourcePort, SourceStorePort


@dataclass(frozen=True, slots=True)
class ReadFrom:
    """A source, its registered id, the first offset to read (files) and how many items at most."""

    source: SourcePort
    source_id: int
    start: int = 0
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Callbacks:
    """What the source's side tells the worker, and asks it."""

    on_ready: Callable[[], None]
    on_texts: Callable[[Iterable[str]], None]
    underway: Callable[[int, int], int]
    provider_away: Callable[[], bool]
    database_away: Callable[[], bool]
    stopping: Callable[[], bool]


class Reading:
    """Delivers records as offers, and knows when the last of them has its destination."""

    def __init__(
        self,
        what: ReadFrom,
        sources: SourceStorePort,
        limits: WorkerLimits,
        progress: Progress,
        memory: MemoryBudget,
        *,
        callbacks: Callbacks,
        probe: Probe,
    ) -> None:
        self._source = what.source
        self._limits = limits
        self._progress = progress
        self._memory = memory
        self._asked = callbacks
        self._lines = Lines()
        self._intake = Intake(
            what.source, what.source_id, sources, self._lines, progress, start=what.start, limit=what.limit,
            invalid=InvalidShare(
                limits.max_invalid_share, window=limits.invalid_window,
                whole=not isinstance(what.source, AssignedSource),
            ),
            memory=memory, probe=probe,
            on_ready=callbacks.on_ready, on_texts=callbacks.on_texts,
        )  # fmt: skip
        self.offers = Offers(
            self._intake.queue, again_seconds=limits.poll_seconds, max_deferred=limits.max_parked,
            is_live=self._lines.is_live, dropped=self.forget,
        )  # fmt: skip
        self._assignments: Assignments | None = None
        upstream = what.source.commit if isinstance(what.source, AssignedSource) else None
        self._commits = Commits(
            self._lines, sources, source_id=what.source_id, probe=probe, upstream=upstream
        )
        if not isinstance(what.source, AssignedSource):
            self._lines.assign(0, 0, what.start)
            return
        self._assignments = Assignments(
            self._lines, self._commits, sources, source_id=what.source_id, source=what.source.name,
            underway=callbacks.underway, wait_seconds=limits.revoke_seconds,
        )  # fmt: skip
        what.source.attach(self._assignments, self._lines.window)

    async def read(self) -> None:
        """Read to the end, see `Intake.run`."""
        await self._intake.run()

    def beside(self, then: Callable[[], Awaitable[object]]) -> list[Coroutine[None, None, None]]:
        """What runs beside the reading: commits (`then` after each), and holding a topic back."""
        found = [self._commits.regularly(self._limits.commit_every_seconds, then)]
        if isinstance(self._source, AssignedSource):
            reasons = {
                "slots": self._intake.queue.full,
                "bytes": lambda: self._memory.left == 0,
                "provider": self._asked.provider_away,
                "database": self._asked.database_away,
                "drain": self._asked.stopping,
            }
            found.append(Backpressure(self._source, reasons).watch())
        return found

    def done(self, record: InputRecord) -> None:
        """The record has a durable destination."""
        self._progress.destined += self._lines.done(record.position)
        self.forget(record)

    def forget(self, record: InputRecord) -> None:
        """The record is no longer in memory."""
        self._memory.give_back(size_of(record.text))
        if self._assignments is not None:
            self._assignments.something_ended()

    async def commit(self) -> None:
        """Commit what may be committed."""
        await self._commits.now()

    async def leave(self, *, commit: bool) -> None:
        """Whatever happened: a member that does not leave holds up its group."""
        if isinstance(self._source, AssignedSource):
            await self._source.stop(commit=commit)
