"""The documented consumers, run as they are documented."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from waiting import until

from assay.adapters.embedded.broker import EmbeddedBroker
from assay.consumer import sign
from assay.domain.events import body_of, headers_of
from assay.domain.outbox import OutboxEvent

DOCS: Final = Path(__file__).parents[2] / "docs"
RECORDS: Final = 30
TOPIC: Final = "events"


@pytest.fixture
def bootstrap(tmp_path: Path) -> Iterator[str]:
    broker = EmbeddedBroker(tmp_path)
    with broker.acquire() as lease:
        admin = AdminClient({"bootstrap.servers": lease.bootstrap})
        for made in admin.create_topics([NewTopic(TOPIC, 2, 1)]).values():
            made.result(30)
        yield lease.bootstrap
    broker.stop(force=True)


def event(record: int, revision: int) -> OutboxEvent:
    """A record's label, which tells its revision; the third of some records is a dead letter."""
    dead = revision == 3 and record % 5 == 0
    return OutboxEvent(
        event_id=uuid.uuid5(uuid.NAMESPACE_OID, f"{record}/{revision}"), outbox_id=revision,
        aggregate_kind="result", aggregate_id=f"tickets/{record}", revision=revision, task_id=1,
        kind="quarantined" if dead else "completed", created_at=datetime(2026, 1, 1, tzinfo=UTC),
        payload={
            "pipeline": "tickets", "record_id": str(record), "input_version": revision, "revision": revision,
            "state": "quarantined" if dead else "auto_candidate",
            "label": None if dead else {"exact": Decimal("0.10"), "of": revision},
        },
    )  # fmt: skip


def produce(bootstrap: str, events: list[OutboxEvent]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for each in events:
        producer.produce(TOPIC, body_of(each), each.key, headers=list(headers_of(each).items()))
    producer.produce(TOPIC, b"no event", "0")
    producer.produce(TOPIC, None, "1")
    assert producer.flush(30) == 0


@contextmanager
def consumer(bootstrap: str, url: str) -> Iterator[subprocess.Popen[bytes]]:
    """The example as a process."""
    environment = {**os.environ, "KAFKA": bootstrap, "TOPIC": TOPIC, "DATABASE_URL": url}
    process = subprocess.Popen([sys.executable, DOCS / "examples" / "labels_from_kafka.py"], env=environment)
    try:
        yield process
    finally:
        process.kill()
        process.wait(30)


def test_the_example_ends_with_the_newest_labels_after_kills_and_repetition(
    db_url: str, bootstrap: str
) -> None:
    chance = random.Random(3)
    events = [event(record, revision) for record in range(RECORDS) for revision in (1, 2, 3)]
    produce(bootstrap, chance.sample(events * 2, len(events) * 2))
    expected = {
        (str(record), 3, "quarantined" if record % 5 == 0 else "auto_candidate") for record in range(RECORDS)
    }
    with psycopg.connect(db_url, autocommit=True) as db:

        def labels() -> set[tuple[Any, ...]]:
            there = db.execute("SELECT to_regclass('labels') IS NOT NULL").fetchone() == (True,)
            return set(db.execute("SELECT record_id, input_version, state FROM labels")) if there else set()

        with consumer(bootstrap, db_url) as first:
            until(labels, "the first label")
            first.send_signal(signal.SIGKILL)
            first.wait(30)
        produce(bootstrap, chance.sample(events, len(events)))
        with consumer(bootstrap, db_url) as second:
            until(lambda: labels() == expected and odd(db) == 4, "the last label")
            second.send_signal(signal.SIGTERM)
            assert second.wait(30) == 0
        assert labels() == expected
        texts = db.execute("SELECT DISTINCT label::text FROM labels WHERE label IS NOT NULL")
        assert texts.fetchall() == [('{"of": 3, "exact": 0.10}',)]


def odd(db: psycopg.Connection[Any]) -> int:
    row = db.execute("SELECT count(*) FROM odd_messages").fetchone()
    assert row is not None
    return int(row[0])


def test_the_documented_check_of_a_signature_agrees_with_ours() -> None:
    page = (DOCS / "consuming.md").read_text("utf-8")
    (block,) = (each for each in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "is_genuine" in each)
    made: dict[str, Any] = {}
    exec(compile(block, "consuming.md", "exec"), made)
    new, old, other = (bytes([number]) * 32 for number in (1, 2, 3))
    now = int(time.time())
    body = json.dumps({"text": "ü"}).encode()
    headers = sign("m", now, body, [new, old])
    assert made["is_genuine"](body, headers, [new], now)
    assert made["is_genuine"](body, headers, [other, old], now + 299)
    assert not made["is_genuine"](body, headers, [other], now)
    assert not made["is_genuine"](body + b" ", headers, [new], now)
    assert not made["is_genuine"](body, headers, [new], now + 301)
    assert not made["is_genuine"](body, {**headers, "webhook-timestamp": str(now + 1)}, [new], now)
