"""A consumer of what is published: keeps each record's last label in a database of its own.

Every delivery has its row, so that the drill can count what came twice and what was applied twice.
"""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Sequence
from typing import Final

import psycopg
from confluent_kafka import Consumer, KafkaException, Message
from psycopg.types.json import Jsonb

from assay.consumer import ConsumedEvent, Inbox, parse
from assay.drill.statements import statement

BATCH: Final = 200
_INBOX: Final = Inbox("drill")


def make_tables(url: str) -> None:
    """The consumer's own tables."""
    with psycopg.connect(url) as db:
        db.execute(statement("downstream_tables"))
        Inbox.create_table(db)


def consume(db: psycopg.Connection[object], messages: Sequence[Message]) -> None:
    """A batch in one transaction: its deliveries, and the effects of those that are new."""
    with db.transaction():
        events = [parse(each.value(), each.headers()) for each in messages]
        applied = _INBOX.accept_each(db, events)
        chosen = {id(each) for each in applied}
        for event in events:
            db.execute(
                statement("downstream_delivery"),
                {"event_id": event.event_id, "kind": event.kind, "applied": id(event) in chosen},
            )
        for event in applied:
            _apply(db, event)


def _apply(db: psycopg.Connection[object], event: ConsumedEvent) -> None:
    if event.kind not in ("completed", "quarantined"):
        return
    label = event.data.get("label") or {}
    db.execute(
        statement("downstream_label"),
        {"record_id": event.data["record_id"], "state": event.data["state"],
         "label": Jsonb({"category": label.get("category")})},
    )  # fmt: skip


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Keep the labels of a topic of events.")
    for name in ("brokers", "topic", "group"):
        parser.add_argument(f"--{name}", required=True)
    given = parser.parse_args()
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopping.append(number))
    consumer = Consumer(
        {
            "bootstrap.servers": given.brokers, "group.id": given.group, "enable.auto.commit": False,
            "auto.offset.reset": "earliest", "session.timeout.ms": 6000, "log_level": 0,
        }
    )  # fmt: skip
    consumer.subscribe([given.topic])
    with psycopg.connect(os.environ["DOWNSTREAM_DATABASE_URL"], autocommit=True) as db:
        try:
            while not stopping:
                messages = [each for each in consumer.consume(BATCH, 0.5) if each.error() is None]
                if messages:
                    consume(db, messages)
                    _commit(consumer)
        finally:
            consumer.close()


def _commit(consumer: Consumer) -> None:
    """After our own commit. Where it fails the messages come again, which does no harm."""
    try:
        consumer.commit(asynchronous=False)
    except KafkaException as error:
        print(f"not committed: {error.args[0].name()}", flush=True)


if __name__ == "__main__":
    main()
