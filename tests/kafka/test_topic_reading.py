"""Topics read to their end, by the newest message or the oldest: its time is its producer's own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from confluent_kafka import Producer

from assay.adapters.kafka.security import Connection
from assay.adapters.kafka.topics import count_unread, read_values
from kafka.brokers import BrokerUnderTest

HOUR_MS = 3_600_000


def send(broker: BrokerUnderTest, topic: str, value: bytes, *, hours: int = 0) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, value, timestamp=int(time.time() * 1000) + hours * HOUR_MS)
    assert producer.flush(30) == 0


def test_a_message_from_the_future_is_read_and_counted(
    broker: BrokerUnderTest, new_topic: Callable[[int], str]
) -> None:
    topic, connection = new_topic(1), Connection(broker.bootstrap)
    for hours in (0, 1, -1):
        send(broker, topic, str(hours).encode(), hours=hours)
    assert list(read_values(connection, topic, silence_seconds=3.0)) == [b"0", b"1", b"-1"]
    assert count_unread(connection, topic, "nobody", silence_seconds=3.0) == 3


def test_what_comes_while_it_is_waited_for_is_read(
    broker: BrokerUnderTest, new_topic: Callable[[int], str]
) -> None:
    topic, connection = new_topic(1), Connection(broker.bootstrap)
    found = read_values(connection, topic, silence_seconds=20.0)
    sent = threading.Timer(1.0, send, (broker, topic, b"late"))
    sent.start()
    assert next(found) == b"late"
    sent.join()
