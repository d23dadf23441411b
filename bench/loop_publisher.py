"""The product's publisher, as `assay publish` runs it; it says when the last event is acknowledged."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable, Sequence
from typing import Any, Final
from uuid import uuid4

from assay.adapters.kafka.producer import KafkaSink, TopicWriting
from assay.adapters.kafka.security import Connection
from assay.adapters.postgres.outbox_store import OutboxStore
from assay.adapters.postgres.session import make_pool
from assay.domain.outbox import Delivered, OutboxEvent, Undelivered
from assay.pipeline.crash import from_environment
from assay.pipeline.publisher import Publisher
from assay.pipeline.publisher_limits import PublisherLimits, shortest_lease
from assay.pipeline.publisher_progress import PublishProgress
from bench.background import Background
from bench.broker import EVENTS
from bench.children import Figures
from bench.crew import finish
from bench.processes import peak_rss_bytes

_LEASE: Final = 30.0
_READY_SECONDS: Final = 30.0


class CountingSink:
    """Passes events on to Kafka, counts acknowledgements, and notes when the last one came."""

    def __init__(self, sink: KafkaSink) -> None:
        self._sink = sink
        self.acknowledged = 0
        self.last = 0.0

    @property
    def name(self) -> str:
        return self._sink.name

    @property
    def send_seconds(self) -> float:
        return self._sink.send_seconds

    async def publish(self, events: Sequence[OutboxEvent]) -> list[Delivered | Undelivered]:
        """See `EventSink`."""
        answers = await self._sink.publish(events)
        self.last = time.perf_counter()
        self.acknowledged += sum(isinstance(answer, Delivered) for answer in answers)
        return answers

    async def aclose(self) -> None:
        """See `EventSink`."""
        await self._sink.aclose()


class _Run:
    def __init__(self, spec: dict[str, Any]) -> None:
        self._spec = spec
        self.sink = CountingSink(KafkaSink(TopicWriting(Connection(spec["brokers"]), EVENTS)))
        self.progress = PublishProgress()
        self._publisher: Publisher | None = None

    async def main(self) -> None:
        lease = max(_LEASE, shortest_lease(self.sink.send_seconds))
        pool = make_pool(self._spec["url"], size=2)
        store = OutboxStore(
            pool, publisher=f"bench:{os.getpid()}:{uuid4().hex[:8]}", sink=self.sink.name, lease_seconds=lease
        )
        self._publisher = Publisher(
            store, self.sink, PublisherLimits(lease_seconds=lease), self.progress,
            clock=asyncio.get_running_loop().time, chance=random.SystemRandom().random,
            probe=from_environment(),
        )  # fmt: skip
        try:
            await pool.open()
            await self._publisher.run()
        finally:
            await self.sink.aclose()
            await pool.close()

    def stop(self) -> None:
        """As a signal does it."""
        if self._publisher is not None:
            self._publisher.request_stop()


def prepare(spec: dict[str, Any]) -> Callable[[], Figures]:
    """`url`, `brokers`; `records`: how many events there will be; `patience`: seconds for all of them."""
    run = _Run(spec)
    background = Background(run.main)
    background.start()
    background.wait_for(lambda: run.progress.buckets > 0, "its buckets", _READY_SECONDS)

    def all_acknowledged() -> bool:
        return run.sink.acknowledged >= int(spec["records"])

    def work() -> Figures:
        cpu = time.process_time()
        finish(lambda: background.wait_for(all_acknowledged, "every event acknowledged", spec["patience"]))
        cpu = time.process_time() - cpu
        background.call(run.stop)
        background.join()
        return {
            "cpu": cpu, "last": run.sink.last, "acknowledged": float(run.sink.acknowledged),
            "sent_again": float(run.progress.sent_again), "peak_rss": float(peak_rss_bytes()),
        }  # fmt: skip

    return work
