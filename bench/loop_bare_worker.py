"""A worker of the bare loop: batches of up to 1,000 messages, each claimed and finished with its events.

No vault, no history, no calls, no retries; its partitions are given to it. One thread uses the client: it may
hang where one thread reads and another one commits.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final
from uuid import uuid4

import psycopg
from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition
from psycopg.rows import tuple_row

from bench.background import Background
from bench.broker import INPUT
from bench.ceiling_sql import PSYCOPG_CLAIM, PSYCOPG_FINISH
from bench.children import Figures
from bench.crew import told_to_stop
from bench.loop_bare import SHA256, answer, consumer_config, key_of
from bench.processes import peak_rss_bytes

_BATCH: Final = 1000
_IN_FLIGHT: Final = 3
_POLL_SECONDS: Final = 0.05
_READY_SECONDS: Final = 30.0


class _Batch:
    """Messages that were read together; `upto` is the next offset of each partition."""

    def __init__(self, messages: list[Message]) -> None:
        self.values = [message.value() or b"" for message in messages]
        self.upto = {message.partition() or 0: (message.offset() or 0) + 1 for message in messages}
        self.done = False


class _Run:
    def __init__(self, spec: dict[str, Any]) -> None:
        self._url: str = spec["url"]
        self._partitions: list[int] = [int(each) for each in spec["partitions"].split(",")]
        self._consumer = Consumer(consumer_config(spec["brokers"]))
        self._consumer.list_topics(INPUT, timeout=10)
        self._open: deque[_Batch] = deque()
        self._reader = threading.Thread(target=self._read, name="bench-reader", daemon=True)
        self._stop = threading.Event()
        self._loop: asyncio.AbstractEventLoop
        self._queue: asyncio.Queue[_Batch | None] = asyncio.Queue(1)
        self._lock = threading.Lock()
        self._upto: dict[int, int] = {}
        self._committed: dict[int, int] = {}
        self.connected = self.finished = 0

    async def main(self) -> None:
        self._loop = asyncio.get_running_loop()
        await asyncio.gather(*(self._work() for _ in range(_IN_FLIGHT)))

    def go(self) -> None:
        self._reader.start()

    def stop(self) -> None:
        """Read no more."""
        self._stop.set()

    def _read(self) -> None:
        self._consumer.assign([TopicPartition(INPUT, each, OFFSET_BEGINNING) for each in self._partitions])
        while not self._stop.is_set():
            self._commit(asynchronous=True)
            messages = [m for m in self._consumer.consume(_BATCH, _POLL_SECONDS) if m.error() is None]
            if messages:
                asyncio.run_coroutine_threadsafe(self._take(_Batch(messages)), self._loop).result()
        for _ in range(_IN_FLIGHT):
            asyncio.run_coroutine_threadsafe(self._queue.put(None), self._loop).result()

    async def _take(self, batch: _Batch) -> None:
        self._open.append(batch)
        await self._queue.put(batch)

    async def _work(self) -> None:
        async with await psycopg.AsyncConnection.connect(
            self._url, autocommit=True, prepare_threshold=0, row_factory=tuple_row
        ) as connection:
            self.connected += 1
            while (batch := await self._queue.get()) is not None:
                await self._label(connection, batch)
                batch.done = True
                self._note_done()

    async def _label(self, connection: psycopg.AsyncConnection[tuple[Any, ...]], batch: _Batch) -> None:
        records = [key_of(value) for value in batch.values]
        attempts = [uuid4() for _ in records]
        claim = await connection.execute(PSYCOPG_CLAIM, (records, attempts, [SHA256] * len(records)))
        await claim.fetchall()
        labels = [answer() for _ in records]
        finish = await connection.execute(PSYCOPG_FINISH, (records, attempts, labels))
        self.finished += len(await finish.fetchall())

    def _note_done(self) -> None:
        """All up to the first batch that is still underway may be committed."""
        with self._lock:
            while self._open and self._open[0].done:
                self._upto |= self._open.popleft().upto

    def _commit(self, *, asynchronous: bool) -> None:
        with self._lock:
            upto = dict(self._upto)
        if upto == self._committed:
            return
        places = [TopicPartition(INPUT, partition, offset) for partition, offset in upto.items()]
        if asynchronous:
            self._consumer.commit(offsets=places, asynchronous=True)
            self._committed = upto
        else:
            self._consumer.commit(offsets=places, asynchronous=False)

    def leave(self) -> None:
        """When all is finished: commit once more, and wait for it."""
        self._reader.join()
        self._committed = {}
        self._commit(asynchronous=False)
        self._consumer.close()


def prepare(spec: dict[str, Any]) -> Callable[[], Figures]:
    """`url`, `brokers`, `partitions` (numbers, with commas between them)."""
    run = _Run(spec)
    background = Background(run.main)
    background.start()
    background.wait_for(lambda: run.connected == _IN_FLIGHT, "connections", _READY_SECONDS)

    def work() -> Figures:
        cpu = time.process_time()
        run.go()
        told_to_stop()
        cpu = time.process_time() - cpu
        run.stop()
        background.join()
        run.leave()
        return {"cpu": cpu, "finished": float(run.finished), "peak_rss": float(peak_rss_bytes())}

    return work
