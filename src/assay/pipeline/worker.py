"""The order of the rooms, written once: intake, claim, call and judge, route, finish, commit the offset.

One asyncio loop does all but lease renewal, which has its own thread. Held tasks are bounded by
`concurrency` plus a claim-ahead buffer, so that no slot waits for a claim, and by as many finishes on their
way as there are slots: a kill loses the answers of twice `concurrency` calls, no more. Nothing is awaited
between a paid answer and its finish but the micro-batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from assay.domain.identity import InputRecord
from assay.domain.work import (
    CallRecord,
    ClaimedTask,
    Finish,
    FinishOutcome,
)
from assay.pipeline.attempt import Annotator, LeaseGone, NoteFirstPass, Stopped, cut_off
from assay.pipeline.brakes import Brakes
from assay.pipeline.claiming import Claiming, Taken
from assay.pipeline.flow import Flow
from assay.pipeline.held import Held, HeldTasks, Renewal
from assay.pipeline.limits import WorkerLimits
from assay.pipeline.memory import MemoryBudget, size_of
from assay.pipeline.micro_batch import MicroBatcher
from assay.pipeline.model_watch import ModelWatch
from assay.pipeline.progress import Progress
from assay.pipeline.reading import Callbacks, ReadFrom, Reading
from assay.pipeline.slots import Slots
from assay.pipeline.spend import SpendGuard
from assay.ports import (
    ClaimPort,
    FinishPort,
    Probe,
    RenewalPort,
    SourcePort,
    SourceStorePort,
    VersionPort,
)
from assay.telemetry import tell

# Finishes are written on so many connections at once: PostgreSQL works on one batch while another commits.
FINISH_WRITERS: Final = 2


@dataclass(frozen=True, slots=True)
class Ports:
    """What a worker needs from the outside."""

    claims: ClaimPort
    finishes: FinishPort
    sources: SourceStorePort
    renewal: RenewalPort
    versions: VersionPort
    database_away: Callable[[], bool] = lambda: False
    about_to_end: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended. `drained`: a stop was asked for; `stopped`: a configuration failure stopped it."""

    drained: bool
    stopped: Stopped | None


@dataclass(slots=True)
class _Note:
    task: ClaimedTask
    code: str
    call: CallRecord
    ours: bool = False


class Worker:
    """Works on one pipeline version, from one source and from what PostgreSQL holds for it."""

    def __init__(
        self,
        ports: Ports,
        limits: WorkerLimits,
        progress: Progress,
        spend: SpendGuard,
        flow: Flow,
        *,
        make_annotator: Callable[[NoteFirstPass], Annotator],
        draw: Callable[[InputRecord], tuple[float, bool]],
        probe: Probe,
    ) -> None:
        self._ports = ports
        self._limits = limits
        self._progress = progress
        self._draw = draw
        self._probe = probe
        self._spend = spend
        self._flow = flow
        self._brakes = Brakes(ports.versions, spend, self._on_stop)
        self._models = ModelWatch(ports.versions.note_model)
        self._annotator = make_annotator(self._note_first_pass)
        self._held = HeldTasks()
        self._memory = MemoryBudget(limits.memory_bytes)
        self._reading: Reading
        self._wake = asyncio.Event()
        self._stopping = False
        self._stopped: Stopped | None = None
        self._failure: BaseException | None = None
        self._winding_up = False
        self._source_failure: Exception | None = None
        self._finisher: MicroBatcher[tuple[Held, Finish]] = MicroBatcher(
            self._write_finishes,
            every=limits.finish_every_seconds,
            most=limits.batch,
            writers=FINISH_WRITERS,
            most_unwritten=limits.concurrency,
            on_failure=self._fail,
        )
        self._noter: MicroBatcher[_Note] = MicroBatcher(
            self._write_notes, every=limits.finish_every_seconds / 4, most=limits.batch
        )
        self._slots = Slots(self._annotate, self._finisher, limit=flow.limit, on_failure=self._fail)

    def request_stop(self) -> None:
        """Drain: take nothing new, finish what is in flight, park the rest, commit, end."""
        if not self._stopping:
            tell("drain_started", in_flight=self._slots.running, held=len(self._held))
        self._stopping = True
        self._ports.about_to_end()
        self._wake.set()

    def _on_stop(self) -> None:
        self._wake.set()

    async def run(self, source: SourcePort, source_id: int, *, start: int, limit: int | None) -> RunResult:
        """Work until the source is done and nothing is parked, or until a stop is asked for.

        Raises what the database or the source raised when they gave out; whatever was claimed then is taken
        over once its lease has ended.
        """
        self._reading = Reading(
            ReadFrom(source, source_id, start, limit), self._ports.sources, self._limits, self._progress,
            self._memory, callbacks=self._callbacks(), probe=self._probe,
        )  # fmt: skip
        claiming = Claiming(
            self._ports.claims, self._ports.sources, self._limits, self._progress, source_id=source_id,
            offers=self._reading.offers, draw=self._draw, done=self._reading.done, memory=self._memory,
            spend=self._spend, flow=self._flow, probe=self._probe,
        )  # fmt: skip
        renewal = Renewal(
            self._held, self._ports.renewal, lease_seconds=self._limits.lease_seconds,
            on_lost=self._on_lost, on_failure=self._fail, probe=self._probe,
        )  # fmt: skip
        self._flow.on_room = self._on_room
        renewal.start()
        self._finisher.start()
        self._noter.start()
        background = [
            asyncio.create_task(self._read(), name="intake"),
            *map(
                self._guarded,
                [
                    *self._reading.beside(self._ports.claims.tidy),
                    self._brakes.watch(),
                    self._slots.keep_deadlines(self._limits.call_timeout_seconds),
                ],
            ),
        ]
        try:
            await self._dispatch(claiming)
            if self._failure is None:
                await self._drain()
        except BaseException as failure:
            self._fail(failure)
            raise
        finally:
            await self._wind_up(background)
            await renewal.stop()
            await self._reading.leave(commit=self._failure is None)
        if self._failure is not None:
            raise self._failure
        await self._reading.commit()
        await self._spend.close()
        await self._ports.claims.release()
        await self._ports.claims.tidy()
        if self._source_failure is not None:
            raise self._source_failure
        stopped = self._stopped
        return RunResult(drained=self._stopping and stopped is None, stopped=stopped)

    async def _read(self) -> None:
        """Run the intake. A source that gives out ends the run gracefully: what was claimed is finished."""
        (ended,) = await asyncio.gather(self._reading.read(), return_exceptions=True)
        if isinstance(ended, Exception):
            self._source_failure = ended
            self.request_stop()

    async def _wind_up(self, background: Sequence[asyncio.Task[None]]) -> None:
        """End everything that runs beside the dispatcher. After a failure nothing more is written."""
        self._winding_up = True
        for task in background:
            task.cancel()
        if self._failure is not None:
            self._finisher.abort()
            self._noter.abort()
            await self._slots.abort()
        else:
            await self._finisher.stop()
            await self._noter.stop()
        await asyncio.gather(*background, return_exceptions=True)

    def _callbacks(self) -> Callbacks:
        return Callbacks(
            on_ready=self._wake.set, on_texts=self._spend.note_texts, underway=self._held.count_of,
            provider_away=lambda: self._flow.is_open, database_away=self._ports.database_away,
            stopping=lambda: self._stopping or self._brakes.stop is not None,
        )  # fmt: skip

    # --- taking work ----------------------------------------------------------------------------------

    def _guarded(self, work: Awaitable[None]) -> asyncio.Task[None]:
        return asyncio.create_task(self._guard(work))

    async def _guard(self, work: Awaitable[None]) -> None:
        """Run something in the background; its failure ends the run instead of vanishing with its task."""
        (ended,) = await asyncio.gather(work, return_exceptions=True)
        if isinstance(ended, BaseException) and not isinstance(ended, asyncio.CancelledError):
            self._fail(ended)

    def _fail(self, failure: BaseException) -> None:
        if isinstance(failure, asyncio.CancelledError) and self._winding_up:
            return
        self._failure = self._failure or failure
        self._wake.set()

    async def _dispatch(self, claiming: Claiming) -> None:
        """Claim and start work until there is nothing left to do, or a stop."""
        while self._failure is None:
            if self._annotator.stopped is not None:
                await self._brakes.pull(self._annotator.stopped)
            if self._stopping or self._stopped is not None:
                self._stopping = True
                return
            self._wake.clear()
            self._progress.in_flight = self._slots.running
            if self._brakes.stop is not None and not await self._is_over(claiming):
                # Before anything more is claimed. A run that has just finished has not been stopped.
                self._stopped = self._brakes.stop
                continue
            taken, tried = await self._claim(claiming)
            if self._take(taken) or tried:
                continue
            if await self._is_over(claiming):
                return
            await self._sleep_until_something_happens()

    async def _claim(self, claiming: Claiming) -> tuple[list[Taken], bool]:
        if self._flow.is_open:
            # The vendor does not answer: nothing is claimed, attempts and age stand still.
            await claiming.nothing_parked()
            return [], False
        return await claiming.some(self._slots.occupied, min(self._flow.limit(), self._limits.concurrency))

    def _on_room(self) -> None:
        self._slots.start()
        self._wake.set()

    def _take(self, taken: Sequence[Taken]) -> bool:
        held = [Held(task, record) for task, record in taken]
        self._held.add(held)
        self._slots.add(held)
        return bool(held)

    async def _is_over(self, claiming: Claiming) -> bool:
        if len(self._held) > 0 or not self._reading.offers.over:
            return False
        # Tasks of this run, or of earlier ones, may be parked: the run ends when they are settled too.
        return await claiming.nothing_parked()

    async def _sleep_until_something_happens(self) -> None:
        now = asyncio.get_running_loop().time()
        pause = self._limits.poll_seconds
        if self._reading.offers.next_at is not None:
            pause = min(pause, max(self._reading.offers.next_at - now, 0.01))
        try:
            async with asyncio.timeout(pause):
                await self._wake.wait()
        except TimeoutError:
            return

    # --- attempts -------------------------------------------------------------------------------------

    async def _annotate(self, held: Held) -> Finish | None:
        """The attempt's finish; None when its lease is gone."""
        try:
            return await self._annotator.annotate(held.task, held.underway)
        except (LeaseGone, asyncio.CancelledError) as end:
            if self._failure is not None:
                return None
            # The slot goes on to its next task: this cancellation was about one attempt.
            if isinstance(end, asyncio.CancelledError) and held.runner is not None:
                held.runner.uncancel()
            if isinstance(end, LeaseGone) or held.lost:
                self._let_go(held)
                return None
            return cut_off(held.task, held.underway, self._spend.reserve)

    def _on_lost(self, attempt_id: UUID) -> None:
        """Renewal found that somebody took over: the call is cancelled, its cost is kept if it came back."""
        held = self._held.get(attempt_id)
        if held is None or held.lost or held.finishing:
            return
        held.lost = True
        if held.runner is None:
            self._let_go(held)
        else:
            held.runner.cancel()

    def _let_go(self, held: Held) -> None:
        self._progress.lease_lost += 1
        self._spend.lost()
        _tell_lease_lost(held.task)
        self._drop([held])
        if held.record is not None:
            self._reading.offers.defer(held.record, 0.0)
        self._wake.set()

    def _drop(self, gone: Sequence[Held]) -> None:
        self._held.drop([held.task.attempt_id for held in gone])
        self._memory.give_back(sum(size_of(held.task.text) for held in gone if held.record is None))

    async def _note_first_pass(self, task: ClaimedTask, code: str, call: CallRecord) -> bool:
        note = _Note(task, code, call)
        await self._noter.put(note)
        return note.ours

    async def _write_notes(self, notes: Sequence[_Note]) -> None:
        ours = await self._ports.finishes.note_first_pass([(n.task, n.code, n.call) for n in notes])
        for note in notes:
            note.ours = note.task.attempt_id in ours
            self._progress.count_call(note.call.cost, correction=False)
        self._spend.charge([note.call for note in notes])

    # --- finishing ------------------------------------------------------------------------------------

    async def _write_finishes(self, batch: Sequence[tuple[Held, Finish]]) -> None:
        for _, finish in batch:
            await self._models.saw(finish.passes.calls)
        self._probe("before_finish")
        answers = await self._ports.finishes.finish([finish for _, finish in batch])
        self._probe("after_finish")
        for held, finish in batch:
            answer = answers[held.task.attempt_id]
            self._progress.count_finish(finish, answer)
            self._spend.settle(finish.passes.calls)
            if answer.outcome is FinishOutcome.LEASE_LOST:
                _tell_lease_lost(held.task)
                if held.record is not None:
                    self._reading.offers.defer(held.record, 0.0)
            elif held.record is not None:
                self._reading.done(held.record)
        self._drop([held for held, _ in batch])
        self._wake.set()

    # --- stopping -------------------------------------------------------------------------------------

    async def _drain(self) -> None:
        """Park what was not started, wait for calls in flight, cut off what takes too long."""
        self._flow.cancel_waiting()
        for held in self._slots.close():
            held.finishing = True
            self._finisher.offer((held, cut_off(held.task, held.underway, self._spend.reserve)))
        self._probe("while_draining")
        await self._slots.drain(self._limits.drain_seconds)


def _tell_lease_lost(task: ClaimedTask) -> None:
    tell("lease_lost", task_id=task.task_id, attempt_id=task.attempt_id, record_id=task.record_id,
         input_version=task.input_version)  # fmt: skip
