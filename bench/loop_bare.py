"""What the bare loops over Kafka share: the messages that they read and write, and the clients' settings."""

from __future__ import annotations

import hashlib
from typing import Final, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from bench.broker import GROUP
from bench.ceiling import LABEL

SHA256: Final = b"\x5a" * 32


class Incoming(BaseModel):
    """A ticket, checked as an input must be."""

    record_id: str
    text: str


class BareLabel(BaseModel):
    """A label, checked as an answer must be."""

    model_config = ConfigDict(strict=True, extra="forbid")

    category: Literal["billing", "technical", "account", "shipping", "other"]
    confidence: float


def identity(ticket: Incoming) -> UUID:
    """The key of a ticket's row."""
    return UUID(bytes=hashlib.sha256(ticket.record_id.encode()).digest()[:16])


def key_of(value: bytes) -> UUID:
    """The key of the ticket in a message; raises `ValidationError` where there is none."""
    return identity(Incoming.model_validate_json(value))


def answer() -> str:
    """The model, which answers at once; its answer is checked."""
    BareLabel.model_validate_json(LABEL)
    return LABEL


def event_of(record: UUID, label: str) -> bytes:
    """The event that is published for a record."""
    return f'{{"record_id":"{record}","label":{label}}}'.encode()


def consumer_config(brokers: str) -> dict[str, str | int | float | bool]:
    """The settings of a consumer that commits by itself, when it chooses."""
    return {
        "bootstrap.servers": brokers, "group.id": GROUP, "enable.auto.commit": False, "log_level": 0,
        "auto.offset.reset": "earliest", "fetch.wait.max.ms": 50,
    }  # fmt: skip


def producer_config(brokers: str) -> dict[str, str | int | float | bool]:
    """The settings of a producer; every replica must have what it acknowledges."""
    return {
        "bootstrap.servers": brokers, "acks": "all", "compression.type": "lz4", "linger.ms": 5,
        "log_level": 0,
    }  # fmt: skip
