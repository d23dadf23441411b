"""A thread that parses a little ahead of an event loop.

Standard input may never say another word, so the thread is a daemon: it never holds up the end of the
process, as a thread of asyncio's default pool would.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import closing
from types import TracebackType
from typing import Final, Self, TypeVar

from assay.domain.identity import InputRecord
from assay.domain.records import ParsedItem
from assay.pipeline.fetching import MAX_BYTES, MAX_ITEMS

_BATCHES_AHEAD: Final = 2

T = TypeVar("T")


class Batches:
    """Items of a source, parsed in a thread and handed to the event loop in batches.

    A batch has at most 500 items and ends at 1 MiB of text; at most two wait. `items` is consumed and
    closed in the thread. `checked` is called before a batch is handed over and may raise.
    """

    def __init__(self, checked: Callable[[], None] | None = None) -> None:
        self._checked = checked
        self._loop = asyncio.get_running_loop()
        self._arrived: asyncio.Queue[Sequence[ParsedItem] | BaseException | None] = asyncio.Queue()
        self._room = threading.Semaphore(_BATCHES_AHEAD)
        self._stopped = False
        self._batch: list[ParsedItem] = []
        self._size = 0

    async def read(
        self, items: Callable[[], Generator[ParsedItem, None, None]]
    ) -> AsyncGenerator[Sequence[ParsedItem], None]:
        """Batches until the items end. What the items raise is raised here, after the items before it."""
        threading.Thread(target=self._run, args=(items,), name="assay-source", daemon=True).start()
        try:
            while (arrival := await self._arrived.get()) is not None:
                if isinstance(arrival, BaseException):
                    raise arrival
                self._room.release()
                yield arrival
        finally:
            self._stopped = True
            self._room.release()

    @property
    def stopped(self) -> bool:
        """Whether nobody reads any more; asked in the thread while it waits for more input."""
        return self._stopped

    def flush(self) -> None:
        """Hands over what is there; called in the thread before it waits for more input."""
        if not self._batch:
            return
        if self._checked is not None:
            self._checked()
        batch, self._batch, self._size = self._batch, [], 0
        self._room.acquire()
        if not self._stopped:
            self._tell(batch)

    def _run(self, items: Callable[[], Generator[ParsedItem, None, None]]) -> None:
        with _Caught() as caught, closing(items()) as found:
            for item in found:
                if self._stopped:
                    break
                self._batch.append(item)
                self._size += len(item.text) if isinstance(item, InputRecord) else len(item.raw)
                if len(self._batch) >= MAX_ITEMS or self._size >= MAX_BYTES:
                    self.flush()
        # What was read before an error is handed over all the same.
        with _Caught() as last:
            self.flush()
        self._tell(caught.error or last.error)

    def _tell(self, arrival: Sequence[ParsedItem] | BaseException | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._arrived.put_nowait, arrival)
        except RuntimeError:  # the loop is closed: nobody waits any more
            self._stopped = True


async def in_thread(work: Callable[[], T]) -> T:
    """The result of `work`, done in a daemon thread of its own."""
    done: concurrent.futures.Future[T] = concurrent.futures.Future()
    done.set_running_or_notify_cancel()

    def run() -> None:
        with _Caught() as caught:
            done.set_result(work())
        if caught.error is not None:
            done.set_exception(caught.error)

    threading.Thread(target=run, name="assay-scan", daemon=True).start()
    return await asyncio.wrap_future(done)


class _Caught:
    """Keeps what its body raised, for another thread to raise."""

    error: BaseException | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self.error = error
        return True
