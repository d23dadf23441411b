"""Finishes in micro-batches: one transaction for what came together, one answer for each."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

In = TypeVar("In")


class MicroBatcher(Generic[In]):
    """Collects items for up to `every` seconds or `most` items and hands them to `write`, batch by batch.

    While a batch is being written the next one collects, so the batch size follows the load. `put` returns
    when its item has been written; an error of `write` reaches everyone in the batch.
    """

    def __init__(self, write: Callable[[Sequence[In]], Awaitable[None]], *, every: float, most: int) -> None:
        self._write = write
        self._every = every
        self._most = most
        self._queue: asyncio.Queue[tuple[In, asyncio.Future[None]]] = asyncio.Queue()
        self._runner: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._runner = asyncio.create_task(self._run(), name="micro-batcher")

    async def put(self, item: In) -> None:
        """Have the item written; returns once it is durable."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.put_nowait((item, done))
        await done

    async def stop(self) -> None:
        """End after what is queued has been written."""
        if self._runner is None:
            return
        await self._queue.join()
        self._runner.cancel()
        await asyncio.gather(self._runner, return_exceptions=True)

    def abort(self) -> None:
        """End at once: nothing more is written, and everyone who waits is told."""
        if self._runner is not None:
            self._runner.cancel()
        while not self._queue.empty():
            _, done = self._queue.get_nowait()
            if not done.done():
                done.cancel()

    async def _run(self) -> None:
        while True:
            batch = [await self._queue.get()]
            if self._queue.qsize() < self._most:
                await self._collect(batch[0][1])
            while len(batch) < self._most and not self._queue.empty():
                batch.append(self._queue.get_nowait())
            await self._flush(batch)

    async def _collect(self, first: asyncio.Future[None]) -> None:
        try:
            await asyncio.sleep(self._every)
        except asyncio.CancelledError:
            first.cancel()
            raise

    async def _flush(self, batch: list[tuple[In, asyncio.Future[None]]]) -> None:
        items = [item for item, _ in batch]
        failure: BaseException | None = asyncio.CancelledError()
        try:
            (failure,) = await asyncio.gather(self._write(items), return_exceptions=True)
        finally:
            for _, done in batch:
                self._queue.task_done()
                if done.done():
                    continue
                if failure is None:
                    done.set_result(None)
                elif isinstance(failure, asyncio.CancelledError):
                    done.cancel()
                else:
                    done.set_exception(failure)
