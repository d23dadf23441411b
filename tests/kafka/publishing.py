"""`assay publish` as people start it, events for it, and an independent consumer of what it sent."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import psycopg
from confluent_kafka import Consumer, TopicPartition

from assay.adapters.postgres.audit_store import AuditStore
from kafka.brokers import BrokerUnderTest
from labelling_project import Project

PATIENCE: Final = 90.0
PARTITIONS: Final = 3
# Results, tasks, inputs and what else the audit asks for are not there in these tests; events are.
OF_EVENTS: Final = frozenset(
    {
        "no_event_overtakes", "event_is_told_once", "receipt_follows_its_event",
        "refusal_is_of_a_waiting_event", "events_are_in_order", "event_id_is_derived",
    }
)  # fmt: skip

_TELL: Final = """
INSERT INTO assay.outbox_events
    (event_id, aggregate_kind, aggregate_id, kind, revision, payload, created_at)
SELECT assay.event_id('result', 'line/r' || n, 'completed', r, 0), 'result', 'line/r' || n, 'completed', r,
       jsonb_build_object('pipeline', 'line', 'pipeline_version', repeat('ab', 32), 'record_id', 'r' || n,
                          'input_version', r, 'revision', r, 'state', 'auto_candidate', 'label', NULL,
                          'error_code', NULL, 'review_reason', NULL),
       assay.assay_now()
FROM generate_series(%(first)s::int, %(last)s::int) AS r, generate_series(1, %(records)s::int) AS n
ORDER BY r, n
"""


@dataclass(frozen=True, slots=True)
class Got:
    """A message as a consumer sees it."""

    event_id: UUID
    aggregate: str
    revision: int
    key: str
    headers: dict[str, str]
    body: dict[str, Any]


def tell_results(project: Project, records: int, first: int = 1, last: int = 1) -> int:
    """Revisions `first` to `last` of so many records in the outbox; how many events that makes."""
    with psycopg.connect(project.database_url, autocommit=True) as db:
        db.execute(_TELL, {"first": first, "last": last, "records": records})
    return records * (last - first + 1)


def to_topic(broker: BrokerUnderTest, topic: str, *options: str) -> tuple[str, ...]:
    """The command of one publisher."""
    return ("publish", "--topic", topic, "--brokers", broker.bootstrap, *options)


def one(project: Project, query: str) -> Any:
    """The only value of a query."""
    with psycopg.connect(project.database_url, autocommit=True) as db:
        row = db.execute(query.encode()).fetchone()
        assert row is not None
        return row[0]


def receipts(project: Project) -> int:
    """How many events have a receipt."""
    return int(one(project, "SELECT count(*) FROM assay.outbox_receipts"))


def until(happened: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    """Wait for something that a query or a process shows."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.05)


def read_all(bootstrap: str, topic: str, known: set[UUID], partitions: int = PARTITIONS) -> list[Got]:
    """Everything in the topic: until each known event has come, and silence after it."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reader", "log_level": 0, "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    got: list[Got] = []
    deadline, silent = time.monotonic() + PATIENCE, 0
    try:
        while silent < 4 or not known <= {each.event_id for each in got}:
            found = list(_messages(consumer))
            got += found
            silent = 0 if found else silent + 1
            assert time.monotonic() < deadline, f"{len(got)} of {len(known)} events came"
    finally:
        consumer.close()
    return got


def _messages(consumer: Consumer) -> Iterator[Got]:
    for message in consumer.consume(1000, 0.5):
        value, key = message.value(), message.key()
        assert message.error() is None
        assert value is not None
        assert key is not None
        headers = {name: _text(content) for name, content in dict(message.headers() or []).items()}
        body = json.loads(value)
        yield Got(
            UUID(body["event_id"]),
            body["aggregate"]["id"],
            body["revision"],
            bytes(key).decode(),
            headers,
            body,
        )


def _text(content: str | bytes | None) -> str:
    return content.decode() if isinstance(content, bytes) else content or ""


def known_events(project: Project) -> set[UUID]:
    """Ids of all events that the database knows."""
    with psycopg.connect(project.database_url) as db:
        return {row[0] for row in db.execute("SELECT event_id FROM assay.known_events")}


def check_history(project: Project, got: list[Got]) -> None:
    """Every event came, first deliveries in order; every one has one receipt; the audit agrees."""
    seen: set[UUID] = set()
    order: dict[str, list[int]] = {}
    for each in got:
        if each.event_id not in seen:
            seen.add(each.event_id)
            order.setdefault(each.aggregate, []).append(each.revision)
    assert seen == known_events(project)
    for aggregate, revisions in order.items():
        assert revisions == sorted(revisions), aggregate
    assert receipts(project) == len(seen)
    broken = {finding.invariant for finding in AuditStore(project.database_url).audit().broken}
    assert not broken & OF_EVENTS
