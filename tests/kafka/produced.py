"""What was produced: each message with the place that the broker gave it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from confluent_kafka import KafkaError, Message, Producer

from assay.demo.generator import generate

SECONDS: Final = 120.0
# So many texts, which repeat.
KNOWN: Final = 2000
# What no reader can take for a record.
MALFORMED: Final = (b"\xff\xfe", b"no json", b"[1]", b'{"text": "without an id"}', None)

_MOST_QUEUED: Final = 50_000

Place = tuple[int, int]
Identity = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Sent:
    """One message. `identity` is None for what is no record; `life` counts topics of one name, from 0."""

    place: Place
    identity: Identity | None
    sha256: bytes
    life: int = 0


def ticket(number: int, text: str, version: int = 1) -> dict[str, Any]:
    """A record; without a version of its own it is the first."""
    found: dict[str, Any] = {"record_id": f"r{number:06}", "text": text}
    return found if version == 1 else {**found, "input_version": version}


@cache
def _texts() -> list[str]:
    return [one.text for one in generate(KNOWN, seed=5)]


def tickets(count: int, start: int = 0) -> list[dict[str, Any]]:
    """Numbered records whose texts the practice vendor knows from the `gold.jsonl` of a ticket project."""
    return [ticket(number, _texts()[number % KNOWN]) for number in range(start, start + count)]


def with_malformed(
    records: Sequence[Mapping[str, Any]], every: int
) -> list[Mapping[str, Any] | bytes | None]:
    """Every so many records something that is none."""
    mixed: list[Mapping[str, Any] | bytes | None] = []
    for number, record in enumerate(records, 1):
        mixed.append(record)
        if number % every == 0:
            mixed.append(MALFORMED[number // every % len(MALFORMED)])
    return mixed


class Feed:
    """Produces into one topic and remembers what the broker has acknowledged."""

    def __init__(self, bootstrap: str, topic: str, *, idempotent: bool) -> None:
        self.topic = topic
        self.sent: list[Sent] = []
        self.life = 0
        # A producer for each time: one that lives on asks for its topic, and the embedded broker makes it.
        self._settings: dict[str, str | int | bool] = {
            "bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 5, "log_level": 0,
            "enable.idempotence": idempotent, "message.timeout.ms": int(1000 * SECONDS),
            "max.in.flight.requests.per.connection": 5 if idempotent else 1,
        }  # fmt: skip

    def send(self, messages: Iterable[Mapping[str, Any] | bytes | None], *, partition: int = -1) -> None:
        """Records, and raw values that are none; waits until the broker has them all."""
        failures: list[KafkaError] = []
        producer = Producer(self._settings)
        for each in messages:
            record = each if isinstance(each, Mapping) else None
            value = json.dumps(each).encode() if isinstance(each, Mapping) else each

            def told(error: KafkaError | None, message: Message, record: Any = record) -> None:
                if error is not None:
                    failures.append(error)
                else:
                    self.sent.append(_sent(message, record, self.life))

            key = str(record["record_id"]) if record is not None else None
            producer.produce(self.topic, value=value, key=key, partition=partition, on_delivery=told)
            # Its queue holds 100,000.
            producer.poll(0.1 if len(producer) > _MOST_QUEUED else 0)
        assert producer.flush(SECONDS) == 0
        assert failures == []

    @property
    def identities(self) -> set[Identity]:
        """Every record version that was sent."""
        return {sent.identity for sent in self.sent if sent.identity is not None}

    def ends(self) -> dict[int, int]:
        """By partition: one after the last message of this life."""
        found: dict[int, int] = {}
        for sent in self.sent:
            if sent.life == self.life:
                found[sent.place[0]] = max(found.get(sent.place[0], 0), sent.place[1] + 1)
        return found


def _sent(message: Message, record: Mapping[str, Any] | None, life: int) -> Sent:
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    if record is None:
        return Sent((partition, offset), None, b"", life)
    identity = (str(record["record_id"]), int(record.get("input_version", 1)))
    return Sent((partition, offset), identity, hashlib.sha256(record["text"].encode()).digest(), life)
