"""The loop over Kafka that one writes first: every message by itself, with a commit for each step."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final
from uuid import uuid4

import psycopg
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from psycopg.rows import tuple_row

from bench.broker import INPUT, PARTITIONS
from bench.ceiling_sql import OUTBOX_DELETE, OUTBOX_READ, PSYCOPG_CLAIM, PSYCOPG_FINISH
from bench.children import Figures
from bench.crew import finish
from bench.loop_bare import SHA256, answer, consumer_config, event_of, key_of
from bench.loop_bare_publisher import Sender
from bench.processes import peak_rss_bytes

_POLL_SECONDS: Final = 1.0


def prepare(spec: dict[str, Any]) -> Callable[[], Figures]:
    """`url`, `brokers`; `records`: how many messages there are."""
    sender = Sender(spec["brokers"])
    consumer = Consumer(consumer_config(spec["brokers"]))
    consumer.list_topics(INPUT, timeout=10)
    connection = psycopg.connect(spec["url"], autocommit=True, prepare_threshold=0, row_factory=tuple_row)

    def loop() -> None:
        consumer.assign([TopicPartition(INPUT, each, OFFSET_BEGINNING) for each in range(PARTITIONS)])
        while sender.acknowledged < spec["records"]:
            message = consumer.poll(_POLL_SECONDS)
            if message is None or message.error() is not None:
                continue
            record, attempt = key_of(message.value() or b""), uuid4()
            connection.execute(PSYCOPG_CLAIM, ([record], [attempt], [SHA256])).fetchall()
            connection.execute(PSYCOPG_FINISH, ([record], [attempt], [answer()])).fetchall()
            for number, key, label in connection.execute(OUTBOX_READ, (1,)).fetchall():
                sender.send([(str(key), event_of(key, label))])
                connection.execute(OUTBOX_DELETE, ([number],))
            consumer.commit(message=message, asynchronous=False)

    def work() -> Figures:
        cpu = time.process_time()
        finish(loop)
        cpu = time.process_time() - cpu
        consumer.close()
        connection.close()
        return {
            "cpu": cpu, "last": sender.last, "acknowledged": float(sender.acknowledged),
            "peak_rss": float(peak_rss_bytes()),
        }  # fmt: skip

    return work
