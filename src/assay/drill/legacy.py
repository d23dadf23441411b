"""A labelling script of the old kind: reads a topic, asks a model, makes a label of whatever comes back.

It finds the first {...} by its braces, turns strings into numbers and a missing category into `other`,
appends to a training file, and commits offsets once a batch is done. It knows nothing of what it did before.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, BinaryIO, Final
from urllib.parse import urlsplit

from confluent_kafka import Consumer, KafkaException

PROMPT: Final = (
    "You label support tickets. Answer with one JSON object: the category (billing, technical, account, "
    "shipping, other or insufficient_evidence), your confidence from 0 to 1, and a reason of one sentence."
)
BATCH: Final = 100
AT_ONCE: Final = 8
_WORDS: Final = {"high": 0.9, "very likely": 0.95, "medium": 0.6}
_BRACES: Final = re.compile(r"\{.*\}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Said:
    """What came back, whatever it is, and the vendor's id for it."""

    text: str
    request_id: str | None = None


@dataclass(frozen=True, slots=True)
class Vendor:
    """Where the model is asked."""

    url: str
    model: str
    key: str

    def ask(self, ticket: str) -> Said:
        """One call. A reply that is no answer is text like any other."""
        place = urlsplit(self.url)
        told = [{"role": "system", "content": PROMPT}, {"role": "user", "content": ticket}]
        connection = HTTPConnection(place.hostname or "", place.port, timeout=60)
        try:
            connection.request(
                "POST", f"{place.path}/chat/completions",
                json.dumps({"model": self.model, "messages": told}).encode(),
                {"Content-Type": "application/json", "Authorization": f"Bearer {self.key}"},
            )  # fmt: skip
            reply = connection.getresponse()
            return Said(_content(reply.read()), reply.headers.get("x-request-id"))
        except (OSError, HTTPException):
            return Said("")
        finally:
            connection.close()


def label_of(said: str) -> tuple[str, float]:
    """Category and confidence, whatever was said."""
    found = first_object(said)
    category = found.get("category")
    return category if isinstance(category, str) and category else "other", number(found.get("confidence"))


def first_object(said: str) -> Mapping[str, Any]:
    """The first {...}, nothing where there is none."""
    match = _BRACES.search(said)
    try:
        found = json.loads(match[0]) if match else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def number(value: object) -> float:
    """A number out of anything."""
    try:
        return float(str(value))
    except ValueError:
        return _WORDS.get(str(value).strip().lower(), 0.5)


def _content(body: bytes) -> str:
    text = body.decode("utf-8", "replace")
    try:
        content = json.loads(text)["choices"][0]["message"]["content"]
    except (ValueError, LookupError, TypeError):
        return text
    return content if isinstance(content, str) else text


def _label(vendor: Vendor, value: bytes) -> bytes:
    """One line of the training file."""
    ticket = json.loads(value)
    said = vendor.ask(ticket["text"])
    category, confidence = label_of(said.text)
    row = {"id": ticket["record_id"], "category": category, "confidence": confidence,
           "request_id": said.request_id}  # fmt: skip
    return json.dumps(row, ensure_ascii=False).encode() + b"\n"


def work(consumer: Consumer, vendor: Vendor, training: BinaryIO, stopping: list[int]) -> None:
    """Batch after batch, until told to stop."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        uncommitted = 0
        while not stopping:
            messages = [each for each in consumer.consume(AT_ONCE, 0.5) if each.error() is None]
            values = [each.value() or b"{}" for each in messages]
            for line in pool.map(partial(_label, vendor), values):
                training.write(line)
            uncommitted += len(messages)
            if uncommitted >= BATCH or (uncommitted and not messages):
                _commit(consumer)
                uncommitted = 0


def _commit(consumer: Consumer) -> None:
    try:
        consumer.commit(asynchronous=False)
    except KafkaException as error:
        print(f"not committed: {error.args[0].name()}", flush=True)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Label the tickets of a topic into a training file.")
    for name in ("brokers", "topic", "group", "base-url", "model", "training"):
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
    vendor = Vendor(given.base_url, given.model, os.environ["MODEL_API_KEY"])
    try:
        with Path(given.training).open("ab", buffering=0) as training:
            work(consumer, vendor, training, stopping)
    finally:
        consumer.close()


if __name__ == "__main__":
    main()
