"""Plain producers and group members, polled by the test itself, so that nothing happens behind its back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

Setting = str | int | bool
_QUIET: dict[str, Setting] = {"log_level": 0}  # a test that kills a broker knows that it is gone


def producer(bootstrap: str, **settings: Setting) -> Producer:
    """A producer; names of settings have `_` where librdkafka has a dot."""
    return Producer({**_QUIET, "bootstrap.servers": bootstrap, "linger.ms": 50, **_dotted(settings)})


def send(
    sender: Producer,
    topic: str,
    values: Sequence[bytes],
    *,
    key: Callable[[int], bytes | None] = lambda number: None,
    partition: int | None = None,
) -> list[tuple[KafkaError | None, int | None]]:
    """Produce and flush; the error (or None) and the offset that each record was given, in order."""
    reports: dict[int, tuple[KafkaError | None, int | None]] = {}
    for number, value in enumerate(values):

        def report(error: KafkaError | None, message: Message, number: int = number) -> None:
            reports[number] = (error, message.offset())

        sender.produce(
            topic,
            value,
            key=key(number),
            partition=-1 if partition is None else partition,
            on_delivery=report,
        )
    assert sender.flush(60) == 0
    return [reports[number] for number in range(len(values))]


class Member:
    """A consumer, its assignments as it was told of them, and its errors."""

    def __init__(self, bootstrap: str, group: str, **settings: Setting) -> None:
        self.told: list[tuple[str, list[int]]] = []
        self.errors: list[KafkaError] = []
        self.got: list[Message] = []
        chosen: dict[str, Setting] = {
            "group_id": group,
            "enable_auto_commit": False,
            "auto_offset_reset": "earliest",
            **settings,
        }
        if chosen.get("group_protocol") != "consumer":
            chosen = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 500, **chosen}
        self.consumer = Consumer({**_QUIET, "bootstrap.servers": bootstrap, **_dotted(chosen)})

    def subscribe(self, topic: str) -> Self:
        """Join the group for one topic."""
        self.consumer.subscribe(
            [topic],
            on_assign=lambda _, parts: self._told("assigned", parts),
            on_revoke=lambda _, parts: self._told("revoked", parts),
            on_lost=lambda _, parts: self._told("lost", parts),
        )
        return self

    def read_from(self, topic: str, partitions: int, offset: int = 0) -> Self:
        """Read without a group."""
        self.consumer.assign([TopicPartition(topic, number, offset) for number in range(partitions)])
        return self

    def holds(self) -> list[int]:
        """The partitions that it reads now; none once it met a fatal error."""
        try:
            return sorted(part.partition for part in self.consumer.assignment())
        except KafkaException:
            return []

    def poll(self) -> None:
        """One turn; what comes of it is in `told`, `got` and `errors`."""
        try:
            found = self.consumer.consume(500, 0.05)
        except KafkaException as refusal:
            self.errors.append(refusal.args[0])
            return
        for message in found:
            error = message.error()
            if error is None:
                self.got.append(message)
            else:
                self.errors.append(error)

    def values(self) -> list[bytes | None]:
        """What it has read."""
        return [message.value() for message in self.got]

    def _told(self, word: str, parts: Sequence[TopicPartition]) -> None:
        self.told.append((word, sorted(part.partition for part in parts)))


@contextmanager
def members(*some: Member) -> Iterator[None]:
    """Closes them in the end."""
    try:
        yield
    finally:
        for member in some:
            member.consumer.close()


def poll_until(happened: Callable[[], bool], *some: Member, seconds: float = 40.0) -> float:
    """Poll all members in turn until something happened; the seconds that it took."""
    began = time.monotonic()
    while not happened():
        for member in some:
            member.poll()
        assert time.monotonic() - began < seconds, f"not within {seconds} s: {[m.told for m in some]}"
    return time.monotonic() - began


def poll_for(seconds: float, *some: Member) -> None:
    """Poll all members for so long: what has not happened by then does not happen."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for member in some:
            member.poll()


def _dotted(settings: dict[str, Setting]) -> dict[str, Setting]:
    return {
        name if name == "log_level" else name.replace("_", "."): value for name, value in settings.items()
    }
