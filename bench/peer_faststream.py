"""FastStream does the whole loop: per message a claim, a finish with its event, and the event published.

Up to ten messages at once, by its `max_workers`. It then commits what it has received, not what it has done:
what is underway is lost with the process. The events' rows are left where they are.
"""

from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final
from uuid import uuid4

from bench.background import Background
from bench.broker import EVENTS, GROUP, INPUT
from bench.ceiling_sql import ASYNCPG_CLAIM, ASYNCPG_FINISH
from bench.children import Figures
from bench.crew import finish
from bench.loop_bare import SHA256, Incoming, answer, event_of, identity
from bench.processes import peak_rss_bytes

_WORKERS: Final = 10
_SESSION_MS: Final = 6000
_READY_SECONDS: Final = 30.0


class _Run:
    def __init__(self, spec: dict[str, Any]) -> None:
        self._spec = spec
        self._kafka = importlib.import_module("faststream.kafka")
        self._asyncpg = importlib.import_module("asyncpg")
        self._go, self._stop = asyncio.Event(), asyncio.Event()
        self.connected = False
        self.acknowledged = 0
        self.first = self.last = 0.0

    async def main(self) -> None:
        pool = await self._asyncpg.create_pool(self._spec["url"], min_size=_WORKERS, max_size=_WORKERS)
        broker = self._kafka.KafkaBroker(self._spec["brokers"], acks="all", logger=None)
        subscribe = broker.subscriber(
            INPUT, group_id=GROUP, max_workers=_WORKERS, auto_offset_reset="earliest",
            session_timeout_ms=_SESSION_MS,
        )  # fmt: skip
        subscribe(self._handler(broker, pool))
        self.connected = True
        await self._go.wait()
        await broker.start()
        await self._stop.wait()
        await broker.stop()
        await pool.close()

    def _handler(self, broker: Any, pool: Any) -> Callable[[Incoming], Awaitable[None]]:
        async def handle(body: Incoming) -> None:
            self.first = self.first or time.perf_counter()
            record, attempt = identity(body), uuid4()
            async with pool.acquire() as connection:
                await connection.fetch(ASYNCPG_CLAIM, [record], [attempt], [SHA256])
            label = answer()
            async with pool.acquire() as connection, connection.transaction():
                await connection.fetch(ASYNCPG_FINISH, [record], [attempt], [label])
            await broker.publish(event_of(record, label), EVENTS, key=str(record).encode())
            self.acknowledged += 1
            self.last = time.perf_counter()

        return handle

    def go(self) -> None:
        """Join the group and begin."""
        self._go.set()

    def stop(self) -> None:
        """Leave the group."""
        self._stop.set()


def prepare(spec: dict[str, Any]) -> Callable[[], Figures]:
    """`url`, `brokers`; `records`: how many messages there are; `patience`: seconds for all of them.

    `first` is when the first message was handled: how long a group takes to form is not counted.
    """
    run = _Run(spec)
    background = Background(run.main)
    background.start()
    background.wait_for(lambda: run.connected, "connections", _READY_SECONDS)

    def all_acknowledged() -> bool:
        return run.acknowledged >= int(spec["records"])

    def work() -> Figures:
        cpu = time.process_time()
        background.call(run.go)
        finish(lambda: background.wait_for(all_acknowledged, "every event acknowledged", spec["patience"]))
        cpu = time.process_time() - cpu
        background.call(run.stop)
        background.join()
        return {
            "cpu": cpu, "first": run.first, "last": run.last, "acknowledged": float(run.acknowledged),
            "peak_rss": float(peak_rss_bytes()),
        }  # fmt: skip

    return work
