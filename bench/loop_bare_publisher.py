"""The publisher of the bare loop: read a batch of events, send it, wait for the broker, delete it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import psycopg
from confluent_kafka import KafkaError, Message, Producer
from psycopg.rows import tuple_row

from bench.broker import EVENTS
from bench.ceiling_sql import OUTBOX_DELETE, OUTBOX_READ
from bench.children import Figures
from bench.crew import finish
from bench.loop_bare import event_of, producer_config
from bench.processes import peak_rss_bytes

_BATCH: Final = 1000
_IDLE_SECONDS: Final = 0.005


class Sender:
    """Sends batches and counts what the broker has acknowledged; `last` is when."""

    def __init__(self, brokers: str) -> None:
        self._producer = Producer(producer_config(brokers))
        self._producer.list_topics(EVENTS, timeout=10)
        self.acknowledged = 0
        self.last = 0.0

    def send(self, events: list[tuple[str, bytes]]) -> None:
        """Send keyed events and wait until the broker has all of them."""
        expected = self.acknowledged + len(events)
        for key, value in events:
            self._producer.produce(EVENTS, value, key=key, on_delivery=self._report)
        self._producer.flush()
        if self.acknowledged != expected:
            raise RuntimeError(f"{expected - self.acknowledged} events were not acknowledged")
        self.last = time.perf_counter()

    def _report(self, error: KafkaError | None, message: Message) -> None:
        self.acknowledged += error is None


def prepare(spec: dict[str, Any]) -> Callable[[], Figures]:
    """`url`, `brokers`; `records`: how many events there will be."""
    sender = Sender(spec["brokers"])
    connection = psycopg.connect(spec["url"], autocommit=True, prepare_threshold=0, row_factory=tuple_row)

    def publish() -> None:
        while sender.acknowledged < spec["records"]:
            rows = connection.execute(OUTBOX_READ, (_BATCH,)).fetchall()
            if rows:
                sender.send([(str(record), event_of(record, label)) for _, record, label in rows])
                connection.execute(OUTBOX_DELETE, ([number for number, _, _ in rows],))
            else:
                time.sleep(_IDLE_SECONDS)

    def work() -> Figures:
        cpu = time.process_time()
        finish(publish)
        cpu = time.process_time() - cpu
        connection.close()
        return {
            "cpu": cpu, "last": sender.last, "acknowledged": float(sender.acknowledged),
            "peak_rss": float(peak_rss_bytes()),
        }  # fmt: skip

    return work
