"""Keeps the labels of a topic in a table of our own: each event once, whatever is repeated, late or killed.

KAFKA=localhost:9092 TOPIC=assay.events DATABASE_URL=postgresql:///ours python labels_from_kafka.py
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

import psycopg
from confluent_kafka import Consumer, KafkaException, Message

from assay.consumer import ConsumedEvent, Inbox, MalformedEvent, parse

TABLES = """
CREATE TABLE IF NOT EXISTS labels (
    pipeline text, record_id text, input_version int, state text, label jsonb,
    PRIMARY KEY (pipeline, record_id)
);
CREATE TABLE IF NOT EXISTS odd_messages (
    topic text, partition int, "offset" bigint, why text, PRIMARY KEY (topic, partition, "offset")
);
"""
inbox = Inbox("labels")


def apply(db: psycopg.Connection, event: ConsumedEvent) -> None:
    """The effect of one event that is new and newer than all before."""
    if event.kind not in {"completed", "quarantined", "rejected"}:
        return
    told = event.data
    # Taken out of the message's own text, the label's numbers keep their digits.
    db.execute(
        "INSERT INTO labels VALUES (%s, %s, %s, %s, nullif(%s::jsonb #> '{data,label}', 'null')) "
        "ON CONFLICT (pipeline, record_id) DO UPDATE SET "
        "input_version = excluded.input_version, state = excluded.state, label = excluded.label",
        (told["pipeline"], told["record_id"], told["input_version"], told["state"], event.body),
    )


def consume(db: psycopg.Connection, messages: Sequence[Message]) -> None:
    """All of a batch in one transaction; nothing of it counts before that is committed."""
    with db.transaction():
        events = []
        for message in messages:
            try:
                events.append(parse(message.value(), message.headers()))
            except MalformedEvent as odd:
                # Set it aside where somebody looks: neither dropped, nor in the way of what follows.
                db.execute(
                    "INSERT INTO odd_messages VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING",
                    (message.topic(), message.partition(), message.offset(), str(odd)),
                )
        for event in inbox.accept_each(db, [event for event in events if event.is_known]):
            apply(db, event)


def commit(consumer: Consumer, messages: Sequence[Message]) -> None:
    """Tell Kafka how far we are, after our own commit. Where that fails the messages come again: no harm."""
    last = {(message.topic(), message.partition()): message for message in messages}
    try:
        for message in last.values():
            consumer.commit(message=message, asynchronous=False)
    except KafkaException as failure:
        print(f"not committed, will come again: {failure.args[0].name()}", flush=True)


def main() -> None:
    stopping = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
    consumer = Consumer(
        {
            "bootstrap.servers": os.environ["KAFKA"],
            "group.id": "labels",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 6000,
        }
    )
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as db:
        db.execute(TABLES)
        Inbox.create_table(db)
        consumer.subscribe([os.environ["TOPIC"]])
        try:
            while not stopping:
                messages = [each for each in consumer.consume(200, 1.0) if each.error() is None]
                if messages:
                    consume(db, messages)
                    commit(consumer, messages)
        finally:
            consumer.close()


if __name__ == "__main__":
    main()
