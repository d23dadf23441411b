"""The room that empties the outbox: take buckets, read, send, turn what was delivered into receipts.

At least once, and in order per aggregate:
- a bucket has one publisher, and all events of an aggregate are in one bucket;
- a batch starts with the oldest unpublished event of each of its aggregates and leaves none out;
- nothing is sent unless the lease outlasts the sink's time limit, by this process's own clock, counted from
  before the lease was asked for;
- receipts are fenced by the lease's revision: after a change of hands the new owner sends everything again.
So whatever a publisher sends that was stopped in between was sent, or will be, by its successor in the right
order: first deliveries are in order, and what comes out of order is a duplicate by its event id.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime

from assay.domain.outbox import (
    BEHIND,
    Answer,
    Backlog,
    Delivered,
    Undelivered,
    Waiting,
    retry_delay,
    without_gaps,
)
from assay.pipeline.publisher_limits import MARGIN_SECONDS, PublisherLimits
from assay.pipeline.publisher_progress import PublishProgress
from assay.pipeline.publisher_trouble import Trouble
from assay.ports import EventSink, OutboxPort, Probe, SinkUnavailable
from assay.telemetry import tell

_LEAST_EACH = 16


class Publisher:
    """One publisher. `clock` is monotonic and in seconds, `chance` draws from [0, 1)."""

    def __init__(
        self,
        outbox: OutboxPort,
        sink: EventSink,
        limits: PublisherLimits,
        progress: PublishProgress,
        *,
        clock: Callable[[], float],
        chance: Callable[[], float],
        probe: Probe,
    ) -> None:
        limits.check(sink.send_seconds)
        self._outbox = outbox
        self._sink = sink
        self._limits = limits
        self._progress = progress
        self._clock = clock
        self._chance = chance
        self._probe = probe
        self._stop = asyncio.Event()
        self._held_until = self._next_turn = self._next_look = clock()
        self._each = limits.batch
        self._trouble = Trouble(sink.name, limits, progress, clock=clock, chance=chance)

    def request_stop(self) -> None:
        """End once the batch in flight has its receipts."""
        self._stop.set()

    async def run(self, *, once: bool = False) -> bool:
        """Publish until a stop is asked for, or, `once`, until all that was there at the start has gone.

        False when it ended because it was asked to. Raises what is no outage.
        """
        started = await self._start()
        try:
            while not self._stop.is_set():
                if await self._round(started if once else None):
                    return True
            return False
        finally:
            await self._leave()

    async def _start(self) -> datetime | None:
        while not self._stop.is_set():
            try:
                await self._turn()
                return (await self._look()).at
            except ConnectionError as away:
                await self._pause(away)
        return None

    async def _round(self, drain_until: datetime | None) -> bool:
        """One batch, or a wait for one; True when the outbox is drained."""
        try:
            if self._clock() >= self._next_turn:
                await self._turn()
            if self._clock() >= self._next_look:
                await self._look()
            batch = await self._read()
            self._trouble.database_answers()
            if not batch:
                if drain_until is not None and await self._outbox.drained(drain_until):
                    return True
                await self._wait(self._limits.poll_seconds)
            elif self._lease_left() <= self._sink.send_seconds + MARGIN_SECONDS:
                await self._turn()
            else:
                await self._publish(batch)
                if drain_until is not None and len(batch) < self._limits.batch:
                    return await self._outbox.drained(drain_until)
        except ConnectionError as away:
            await self._pause(away)
        return False

    # --- buckets -------------------------------------------------------------------------------------

    async def _turn(self) -> None:
        """Say that we live; take and give buckets. The lease counts from before it was asked for."""
        asked = self._clock()
        held, share = await self._outbox.share()
        self._held_until = asked + self._limits.lease_seconds * 2 / 3 if held else asked
        every = self._limits.turn_seconds
        self._next_turn = asked + (every if len(held) >= share else every / 4)
        self._progress.buckets = len(held)

    def _lease_left(self) -> float:
        return self._held_until - self._clock()

    # --- one batch -----------------------------------------------------------------------------------

    async def _read(self) -> list[Waiting]:
        """The next batch. A few buckets that hold most of the backlog get more room than their share."""
        most, held = self._limits.batch, max(self._progress.buckets, 1)
        batch = await self._outbox.read(most, self._each)
        fullest = max(Counter(each.bucket for each in batch).values(), default=0)
        if len(batch) < most and fullest == self._each:
            self._each = min(self._each * 2, most)
        elif len(batch) == most:
            self._each = min(max(2 * most // held, _LEAST_EACH), most)
        return batch

    async def _publish(self, batch: Sequence[Waiting]) -> None:
        self._probe("before_publish")
        events = [each.event for each in batch]
        answers = without_gaps(events, await self._sink.publish(events))
        self._probe("after_send")
        await self._settle(batch, answers)
        self._probe("after_receipt")
        in_the_way = [a.reason for a in answers if isinstance(a, Undelivered) and not a.poison]
        in_the_way = [reason for reason in in_the_way if reason != BEHIND]
        if not in_the_way:
            self._trouble.over()
        elif not any(isinstance(answer, Delivered) for answer in answers):
            raise SinkUnavailable(in_the_way[0])

    async def _settle(self, batch: Sequence[Waiting], answers: Sequence[Answer]) -> None:
        pairs = list(zip(batch, answers, strict=True))
        delivered = [(w, answer.position) for w, answer in pairs if isinstance(answer, Delivered)]
        refused = [
            (w, answer.reason, retry_delay(w.tries + 1, self._chance()))
            for w, answer in pairs
            if isinstance(answer, Undelivered) and answer.poison
        ]
        if delivered:
            held = await self._outbox.record(delivered)
            kept = sum(waiting.bucket in held for waiting, _ in delivered)
            self._progress.published += kept
            self._progress.sent_again += len(delivered) - kept
            if kept < len(delivered):
                tell("buckets_lost", count=len({w.bucket for w, _ in delivered} - held))
        if refused:
            await self._outbox.refuse(refused)
            self._progress.refused += len(refused)
        for waiting, reason, delay in refused:
            tell("event_refused", sink=self._sink.name, event_id=waiting.event.event_id,
                 event_kind=waiting.event.kind, reason=reason, count=waiting.tries + 1,
                 seconds=delay)  # fmt: skip

    # --- waits ---------------------------------------------------------------------------------------

    async def _look(self) -> Backlog:
        self._next_look = self._clock() + self._limits.look_seconds
        backlog = await self._outbox.backlog()
        self._progress.backlog, self._progress.blocked = backlog.events, backlog.blocked
        self._progress.oldest_seconds = backlog.oldest_seconds
        return backlog

    async def _pause(self, away: ConnectionError) -> None:
        """Wait before the next try; leases are kept meanwhile where the database answers."""
        until = self._clock() + self._trouble.pause(away)
        while not self._stop.is_set() and (left := until - self._clock()) > 0:
            await self._wait(min(left, self._limits.turn_seconds))
            if isinstance(away, SinkUnavailable) and self._clock() >= self._next_turn:
                try:
                    await self._turn()
                except ConnectionError:
                    return  # the next round finds out, and waits for the database

    async def _wait(self, seconds: float) -> None:
        """Wait, or until a stop is asked for."""
        try:
            async with asyncio.timeout(max(seconds, 0.0)):
                await self._stop.wait()
        except TimeoutError:
            return

    async def _leave(self) -> None:
        """Buckets go back at once; where the database is away their leases end by themselves."""
        try:
            await self._outbox.leave()
            await self._look()
        except ConnectionError as away:
            tell("database_unavailable", error=away)
