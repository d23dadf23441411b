"""Writes in micro-batches: one transaction for what came together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

In = TypeVar("In")

_Waiter = asyncio.Future[None] | None


class MicroBatcher(Generic[In]):
    """Collects items for up to `every` seconds or `most` items and hands them to `write`, batch by batch.

    While batches are being written (`writers` at once) the next one collects, so the batch size follows the
    load. `put` waits until its item has been written; an error of `write` reaches everyone in the batch.
    `offer` does not wait: for those items `on_failure` hears of the error. Whoever offers looks at `full` and
    waits for `room`, so that what is not yet written stays bounded by `most_unwritten`.
    """

    def __init__(
        self,
        write: Callable[[Sequence[In]], Awaitable[None]],
        *,
        every: float,
        most: int,
        writers: int = 1,
        most_unwritten: int | None = None,
        on_failure: Callable[[BaseException], None] | None = None,
    ) -> None:
        self._write = write
        self._every = every
        self._most = most
        self._writers = writers
        self._most_unwritten = 2 * most * writers if most_unwritten is None else most_unwritten
        self._on_failure = on_failure
        self._waiting: deque[tuple[In, _Waiter]] = deque()
        self._unwritten = 0
        self._arrival = asyncio.Event()
        self._progress = asyncio.Event()
        self._runners: list[asyncio.Task[None]] = []
        self._aborted = False

    def start(self) -> None:
        self._runners = [asyncio.create_task(self._run(), name="micro-batcher") for _ in range(self._writers)]

    def offer(self, item: In) -> None:
        """Have the item written; nobody waits for it."""
        self._enqueue(item, None)

    async def put(self, item: In) -> None:
        """Have the item written; returns once it is durable."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._aborted:
            done.cancel()
        self._enqueue(item, done)
        await done

    @property
    def full(self) -> bool:
        """Whether as many items as may be wait or are being written."""
        return self._unwritten >= self._most_unwritten

    async def room(self) -> None:
        """Wait until it is no longer full, or until nothing is written any more."""
        while self.full and not self._aborted:
            self._progress.clear()
            await self._progress.wait()

    async def stop(self) -> None:
        """End after what is queued has been written."""
        while self._unwritten and self._runners and not self._aborted:
            self._progress.clear()
            await self._progress.wait()
        await self._end()

    def abort(self) -> None:
        """End at once: nothing more is written, and everyone who waits is told."""
        self._aborted = True
        for runner in self._runners:
            runner.cancel()
        while self._waiting:
            _settle(self._waiting.popleft()[1], asyncio.CancelledError())
        self._progress.set()

    async def _end(self) -> None:
        for runner in self._runners:
            runner.cancel()
        await asyncio.gather(*self._runners, return_exceptions=True)

    def _enqueue(self, item: In, done: _Waiter) -> None:
        self._unwritten += 1
        self._waiting.append((item, done))
        self._arrival.set()

    async def _run(self) -> None:
        while True:
            while not self._waiting:
                self._arrival.clear()
                await self._arrival.wait()
            if len(self._waiting) < self._most:
                await asyncio.sleep(self._every)
            count = min(self._most, len(self._waiting))
            if count:
                await self._flush([self._waiting.popleft() for _ in range(count)])

    async def _flush(self, batch: list[tuple[In, _Waiter]]) -> None:
        failure: BaseException | None = asyncio.CancelledError()
        try:
            (failure,) = await asyncio.gather(
                self._write([item for item, _ in batch]), return_exceptions=True
            )
        finally:
            self._unwritten -= len(batch)
            self._progress.set()
            for _, done in batch:
                _settle(done, failure)
            unheard = any(done is None for _, done in batch)
            if failure is not None and unheard and self._on_failure is not None:
                self._on_failure(failure)


def _settle(done: _Waiter, failure: BaseException | None) -> None:
    if done is None or done.done():
        return
    if failure is None:
        done.set_result(None)
    elif isinstance(failure, asyncio.CancelledError):
        done.cancel()
    else:
        done.set_exception(failure)
