"""From a source to offers: records are delivered to the ledger, malformed pieces are isolated first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from assay.domain.failures import AssayError
from assay.domain.identity import InputRecord, MalformedInput, SourceItem
from assay.domain.work import Isolation
from assay.pipeline.invalid_share import InvalidShare
from assay.pipeline.lines import Lines
from assay.pipeline.memory import MemoryBudget, size_of
from assay.pipeline.progress import Progress
from assay.ports import AssignedSource, Probe, SourcePort, SourceStorePort
from assay.telemetry import tell

_QUEUED_BATCHES: Final = 4


class Intake:
    """Reads one source into a bounded queue of record batches; `None` in the queue is its end."""

    def __init__(
        self,
        source: SourcePort,
        source_id: int,
        store: SourceStorePort,
        lines: Lines,
        progress: Progress,
        *,
        start: int,
        limit: int | None,
        invalid: InvalidShare,
        memory: MemoryBudget,
        probe: Probe,
        on_ready: Callable[[], None],
        on_texts: Callable[[Iterable[str]], None],
    ) -> None:
        self._source = source
        self._source_id = source_id
        self._store = store
        self._lines = lines
        self._progress = progress
        self._start = start
        self._left = limit
        self._invalid = invalid
        self._memory = memory
        self._probe = probe
        self._on_ready = on_ready
        self._on_texts = on_texts
        self.queue: asyncio.Queue[list[InputRecord] | None] = asyncio.Queue(_QUEUED_BATCHES)

    async def run(self) -> None:
        """Read to the end, or to the limit.

        Raises `AssayError` when more than the allowed share of the last items (of a file: of all, too) is
        malformed: then the source, not the records, is what needs a look. What was isolated stays isolated.
        """
        if self._left == 0:
            await self._put(None)
            return
        async for batch in self._source.read(self._start):
            items = batch if self._left is None else batch[: self._left]
            await self._deliver(items)
            if self._left is not None:
                self._left -= len(items)
                if self._left == 0:
                    break
        await self._put(None)
        self._invalid.end()
        self._check_share()

    async def _put(self, records: list[InputRecord] | None) -> None:
        await self.queue.put(records)
        self._on_ready()

    async def _deliver(self, items: Sequence[SourceItem]) -> None:
        # What an assignment that has ended had fetched is left to whoever has the partition now.
        items = [item for item in items if self._lines.deliver(item.position)]
        self._progress.read += len(items)
        self._invalid.note(item.error_type if isinstance(item, MalformedInput) else None for item in items)
        malformed = [item for item in items if isinstance(item, MalformedInput)]
        records = [item for item in items if isinstance(item, InputRecord)]
        if malformed:
            await self._isolate(malformed)
        if records:
            await self._memory.room()
            self._memory.take(sum(size_of(record.text) for record in records))
            self._on_texts(record.text for record in records)
            await self._put(records)

    async def _isolate(self, malformed: Sequence[MalformedInput]) -> None:
        self._probe("before_isolation")
        await self._store.isolate(self._source_id, [Isolation.of_malformed(item) for item in malformed])
        self._probe("after_isolation")
        for item in malformed:
            self._progress.destined += self._lines.done(item.position)
        self._progress.isolated += len(malformed)
        first = malformed[0]
        tell(
            "records_isolated", source=first.source, partition=first.position.partition,
            offset=first.position.offset, line=first.position.line, code="input_schema_invalid",
            error_type=first.error_type, count=len(malformed),
        )  # fmt: skip
        self._check_share()

    def _check_share(self) -> None:
        """Once what is malformed is isolated: a source that turns out to be no source of records stops."""
        found = self._invalid.found
        if found is None:
            return
        share = f"{found.malformed} of the last {found.items} records of {self._source.name} are malformed"
        often = f"{found.error_type}: {found.count}"
        if isinstance(self._source, AssignedSource):
            raise AssayError(
                f"{share} ({often}), so reading stopped; they are isolated and the rest is unread: nothing "
                "is lost. Look at them with `assay isolated list`, mend the producer or --map, then start "
                "again (--max-invalid allows a larger share)."
            )
        raise AssayError(
            f"{share} ({often}), so reading stopped; check --format and --map. They are isolated, nothing is "
            "lost."
        )
