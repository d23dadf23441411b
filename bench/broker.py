"""The broker that the bench measures on: the embedded one, in memory, a fresh one for each measurement."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from assay.adapters.embedded.broker import BrokerSettings, EmbeddedBroker
from assay.adapters.embedded.server import EmbeddedServer
from assay.adapters.kafka.security import Connection
from assay.adapters.kafka.topics import make_topics, send_values

INPUT: Final = "tickets"
EVENTS: Final = "events"
GROUP: Final = "bench"
# What the embedded broker gives a topic.
PARTITIONS: Final = 4
_ASK_SECONDS: Final = 10.0
_PATIENCE_SECONDS: Final = 5.0
_SILENCE_SECONDS: Final = 0.5
_POLL_SECONDS: Final = 0.1
_BATCH: Final = 1000

Keyed = tuple[str | None, bytes]


@dataclass(frozen=True, slots=True)
class Broker:
    """A running broker with two empty topics, INPUT and EVENTS."""

    bootstrap: str
    pid: int
    version: str

    @property
    def connection(self) -> Connection:
        return Connection(self.bootstrap)

    def fill(self, values: Sequence[Keyed]) -> None:
        """Write the input, and wait until the broker has all of it."""
        send_values(self.connection, INPUT, values)

    def committed(self) -> int:
        """The offsets that the group has committed in INPUT, summed: topics begin at 0 and have no gaps."""
        admin = AdminClient(self.connection.config)
        places = [TopicPartition(INPUT, each) for each in range(PARTITIONS)]
        asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(GROUP, places)])
        found = asked[GROUP].result(_ASK_SECONDS).topic_partitions or ()
        return sum(max(each.offset, 0) for each in found)

    def events(self, identity: str, wanted: int) -> tuple[int, int]:
        """How many events a consumer finds in EVENTS, and how many of them differ in `identity`.

        It waits for as many as there should be, and a moment longer.
        """
        consumer = Consumer({**self.connection.config, "group.id": "bench-reader", "fetch.wait.max.ms": 50})
        read: list[str] = []
        silent = 0.0
        try:
            consumer.assign([TopicPartition(EVENTS, each, OFFSET_BEGINNING) for each in range(PARTITIONS)])
            while silent < (_PATIENCE_SECONDS if len(read) < wanted else _SILENCE_SECONDS):
                begun = time.monotonic()
                values = [m.value() for m in consumer.consume(_BATCH, _POLL_SECONDS) if m.error() is None]
                read += [json.loads(value)[identity] for value in values if value is not None]
                silent = 0.0 if values else silent + time.monotonic() - begun
        finally:
            consumer.close()
        return len(read), len(set(read))


@contextmanager
def running_broker() -> Iterator[Broker]:
    """Start a broker and make its topics; it ends, and all it holds, with the context."""
    with tempfile.TemporaryDirectory(prefix="assay-bench-broker-") as folder:
        embedded = EmbeddedBroker(Path(folder), settings=BrokerSettings(idle_grace=0.5))
        try:
            with embedded.acquire() as lease:
                status = embedded.status()
                if status.pid is None:
                    raise RuntimeError("the broker gave no process number")
                broker = Broker(lease.bootstrap, status.pid, status.version or "unknown")
                make_topics(broker.connection, [INPUT, EVENTS])
                yield broker
        finally:
            embedded.stop(force=True)
            # As root the broker's folder lies outside of the project's.
            EmbeddedServer(Path(folder)).remove()
