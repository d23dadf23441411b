"""Taking work: from the offers, and from what PostgreSQL holds parked or abandoned."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from assay.domain.identity import LOW_PRIORITY, InputRecord
from assay.domain.work import ClaimedTask, Claims, Isolation, NotWon, Offer, Verdict
from assay.pipeline.flow import Flow
from assay.pipeline.limits import WorkerLimits
from assay.pipeline.memory import MemoryBudget, size_of
from assay.pipeline.offers import Offers
from assay.pipeline.progress import Progress
from assay.pipeline.spend import SpendGuard
from assay.ports import ClaimPort, Probe, SourceStorePort
from assay.telemetry import tell

# A claimed task, and the record of the source that it belongs to (None: it came from PostgreSQL).
Taken = tuple[ClaimedTask, InputRecord | None]

# Why records of low priority are parked while a command pauses them.
LOW_PRIORITY_PAUSED: Final = "low_priority_paused"


class Claiming:
    """Claims in worthwhile batches. `done` is told of records that need nothing more."""

    def __init__(
        self,
        claims: ClaimPort,
        sources: SourceStorePort,
        limits: WorkerLimits,
        progress: Progress,
        *,
        source_id: int,
        offers: Offers,
        draw: Callable[[InputRecord], tuple[float, bool]],
        done: Callable[[InputRecord], None],
        memory: MemoryBudget,
        spend: SpendGuard,
        flow: Flow,
        probe: Probe,
    ) -> None:
        self._claims = claims
        self._sources = sources
        self._limits = limits
        self._progress = progress
        self._source_id = source_id
        self._offers = offers
        self._draw = draw
        self._done = done
        self._memory = memory
        self._spend = spend
        self._flow = flow
        self._probe = probe
        self._last_poll = float("-inf")
        self._parked = 0
        self._low_paused = False

    async def some(self, occupied: int, slots: int) -> tuple[list[Taken], bool]:
        """What was won, given how many tasks have or await a slot, and how many slots there may be; the flag
        says whether anything was tried.

        Nothing is tried while less than half of the claim-ahead buffer is free: batches stay batches.
        """
        ahead = min(self._limits.claim_ahead, slots)
        room = slots + ahead - occupied
        if room < ahead // 2 + 1 and occupied > 0:
            return [], False
        drawn = self._spend.take(min(room, self._limits.batch))
        if drawn < 1:
            return [], False
        # Parked and abandoned work gets up to half of the room first: a long source must not starve it.
        waiting = await self._claim_waiting(max(drawn // 2, 1))
        left = drawn - len(waiting)
        offered, tried = await self._claim_offers(left) if left else ([], False)
        taken = [*waiting, *offered]
        self._spend.claimed(drawn, [task for task, _ in taken])
        retries = sum(task.is_retry for task, _ in waiting)
        self._flow.note_calls(first=len(offered), retries=retries)
        self._progress.claimed += len(taken)
        self._progress.taken_over += sum(task.taken_over for task, _ in taken)
        return taken, tried or bool(waiting)

    async def _claim_offers(self, room: int) -> tuple[list[Taken], bool]:
        # Backpressure: while much is parked, nothing new enters.
        records = self._offers.take(room, fresh=self._parked < self._limits.max_parked)
        if not records:
            return [], False
        self._probe("before_claim")
        now, later = self._by_priority(records)
        if later:
            await self._park(later)
        claims = await self._claims.claim(self._source_id, now) if now else Claims([], [])
        self._probe("after_claim")
        await self._settle_not_won(claims)
        return [(task, record) for record, task in claims.won], True

    def _by_priority(self, records: Sequence[InputRecord]) -> tuple[list[Offer], list[Offer]]:
        """What is worked on now, and what the pause of low priority makes wait."""
        now: list[Offer] = []
        later: list[Offer] = []
        for record in records:
            waits = self._low_paused and record.attributes.priority == LOW_PRIORITY
            (later if waits else now).append(Offer(record, *self._draw(record)))
        return now, later

    async def _park(self, offers: Sequence[Offer]) -> None:
        """Records of low priority wait in PostgreSQL: their offsets are done, nothing is held back."""
        claims = await self._claims.claim(self._source_id, offers, park_as=LOW_PRIORITY_PAUSED)
        await self._settle_not_won(claims)
        self._progress.parked += len(claims.won)
        self._progress.waiting += len(claims.won)
        self._progress.park_reasons[LOW_PRIORITY_PAUSED] += len(claims.won)
        for record, _ in claims.won:
            self._done(record)

    async def _claim_waiting(self, room: int) -> list[Taken]:
        now = asyncio.get_running_loop().time()
        if now - self._last_poll < self._limits.poll_seconds:
            return []
        # Beyond the retry budget parked tasks simply go on waiting; what dead workers left is no retry.
        allowed = self._flow.retries_allowed()
        # Longer texts than were drawn for wait, but for the first; what is claimed is noted before it starts.
        covered = self._spend.bytes_for(room)
        most = self._memory.left if covered is None else min(self._memory.left, covered)
        tasks = await self._claims.claim_waiting(room, retries=allowed, max_bytes=most)
        self._spend.note_texts(task.text for task in tasks)
        self._progress.resumed.update(task.task_id for task in tasks)
        for task in tasks:
            self._memory.take(size_of(task.text))
        # As many as fit: more may be due, and the next free slots need not wait for them.
        self._last_poll = now if len(tasks) < room else float("-inf")
        await self.nothing_parked()
        if tasks:
            self._probe("after_claim")
        return [(task, None) for task in tasks]

    async def nothing_parked(self) -> bool:
        """Whether no task of the version is parked, due or not, but for those that a pause holds back."""
        parked_then = self._progress.parked
        due, self._parked = await self._claims.next_due()
        low = await self._claims.low_priority()
        if low.paused is not self._low_paused:
            self._low_paused = low.paused
            if low.paused:
                tell("low_priority_paused", count=low.held)
            else:
                tell("low_priority_resumed")
        # What the pause holds back waits, but it keeps no run from ending and no new record from entering.
        self._progress.note_waiting(self._parked + low.held, parked_then)
        return due is None

    async def _settle_not_won(self, claims: Claims) -> None:
        conflicts = [found for found in claims.not_won if found.verdict is Verdict.CONFLICT]
        if conflicts:
            await self._isolate_conflicts(conflicts)
        for found in claims.not_won:
            if found.verdict is Verdict.IN_PROGRESS:
                self._offers.defer(found.record, found.wait_seconds)
                continue
            if found.verdict is not Verdict.CONFLICT:
                self._progress.settled_before += 1
            self._done(found.record)

    async def _isolate_conflicts(self, conflicts: Sequence[NotWon]) -> None:
        self._probe("before_isolation")
        isolations = [Isolation.of_conflict(found.record) for found in conflicts]
        await self._sources.isolate(self._source_id, isolations)
        self._probe("after_isolation")
        self._progress.conflicts += len(conflicts)
        for found in conflicts:
            record, position = found.record, found.record.position
            tell(
                "input_conflict", code="input_version_conflicts_with_content", record_id=record.record_id,
                input_version=record.input_version, source=record.source, partition=position.partition,
                offset=position.offset, line=position.line,
            )  # fmt: skip
