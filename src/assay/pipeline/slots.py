"""Slots: as many attempts at once as the vendor and the settings allow, each on one held task.

A slot is a coroutine that goes from task to task. It holds nothing but a model call: a finish is handed over
to be written, and the slot takes the next task at once. What is handed over and not yet durable is bounded by
the batcher; a kill loses the answers of the slots and of that bound, and the ledger charges them all.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from assay.domain.work import Finish
from assay.pipeline.held import Held
from assay.pipeline.micro_batch import MicroBatcher

# A model that answers without waiting must not keep the loop to itself.
_YIELD_EVERY: Final = 64


class Slots:
    """Runs what is ready. `limit` says how many slots there may be just now; it is asked before each task."""

    def __init__(
        self,
        annotate: Callable[[Held], Awaitable[Finish | None]],
        finisher: MicroBatcher[tuple[Held, Finish]],
        *,
        limit: Callable[[], int],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._annotate = annotate
        self._finisher = finisher
        self._limit = limit
        self._on_failure = on_failure
        self._ready: deque[Held] = deque()
        self._running: set[Held] = set()
        self._slots: set[asyncio.Task[None]] = set()
        self._opening = False
        self._closed = False

    @property
    def running(self) -> int:
        """Attempts under way."""
        return len(self._running)

    @property
    def occupied(self) -> int:
        """Tasks that wait for a slot or have one."""
        return len(self._ready) + len(self._running)

    def add(self, held: Iterable[Held]) -> None:
        """Tasks to run, in this order."""
        self._ready.extend(held)
        self.start()

    def start(self) -> None:
        """Open slots as long as there is work and room for more.

        Their number doubles with each turn of the loop: a model that takes time has all its slots within a
        few turns, one that answers at once never needs more than a few.
        """
        if self._closed or self._opening:
            return
        wanted = min(len(self._ready), self._limit() - len(self._slots), max(len(self._slots), 1))
        for _ in range(wanted):
            slot = asyncio.create_task(self._slot())
            self._slots.add(slot)
            slot.add_done_callback(self._ended)
        if wanted > 0:
            self._opening = True
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        self._opening = False
        if self._ready:
            self.start()

    async def keep_deadlines(self, seconds: float) -> None:
        """Cancel calls that are waited for longer than `seconds`; runs until it is cancelled.

        Adapters keep the deadline of a call themselves: what they miss ends here, a little later. One sweep
        over all calls now and then costs less than a timer for each.
        """
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(min(seconds / 8, 1.0))
            begun_before = loop.time() - seconds
            for held in self._running:
                underway = held.underway
                late = underway.since is not None and underway.since < begun_before and not underway.late
                if late and held.runner is not None:
                    underway.late = True
                    held.runner.cancel()

    def close(self) -> list[Held]:
        """Start nothing more; what had no slot yet comes back."""
        self._closed = True
        unstarted = [held for held in self._ready if not held.lost]
        self._ready.clear()
        return unstarted

    async def drain(self, seconds: float) -> None:
        """Wait for attempts under way; cancel what takes longer."""
        if self._slots:
            _, late = await asyncio.wait(set(self._slots), timeout=seconds)
            await self._cancel(late)

    async def abort(self) -> None:
        """End all attempts at once."""
        self._closed = True
        await self._cancel(set(self._slots))

    @staticmethod
    async def _cancel(slots: set[asyncio.Task[None]]) -> None:
        for slot in slots:
            slot.cancel()
        await asyncio.gather(*slots, return_exceptions=True)

    def _ended(self, slot: asyncio.Task[None]) -> None:
        self._slots.discard(slot)
        if slot.cancelled():
            return
        failure = slot.exception()
        if failure is not None:
            self._on_failure(failure)
        elif self._ready:
            self.start()

    def _next(self) -> Held | None:
        if self._closed or len(self._slots) > self._limit():
            return None
        while self._ready:
            held = self._ready.popleft()
            if not held.lost:
                return held
        return None

    async def _slot(self) -> None:
        turns = 0
        while (held := self._next()) is not None:
            held.runner = asyncio.current_task()
            self._running.add(held)
            try:
                finish = await self._annotate(held)
            finally:
                self._running.discard(held)
                held.runner = None
            if finish is not None:
                held.finishing = True
                self._finisher.offer((held, finish))
            if self._finisher.full:
                await self._finisher.room()
            turns += 1
            if turns % _YIELD_EVERY == 0:
                await asyncio.sleep(0)
