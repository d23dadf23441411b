"""Events to a topic: an idempotent producer in a thread of its own, one event of an aggregate at a time.

An event is handed to the client once the one before it of its aggregate is acknowledged: no retry, time-out
or loss inside the client can bring them out of order. What is not acknowledged in time is purged, so that
nothing is sent after `publish` has returned, and the client is made anew.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from assay.adapters.kafka.producer_problems import code_of, poison_of, refusal_of
from assay.adapters.kafka.security import Connection
from assay.domain.events import UnfitEvent, body_of, headers_of
from assay.domain.failures import ConfigurationError
from assay.domain.outbox import BEHIND, Answer, Delivered, OutboxEvent, Undelivered, waves
from assay.ports import SinkUnavailable

# What goes to the dead-letter topic as well: that something was refused, where, and why; never what it was.
DEAD: Final = frozenset({"quarantined", "isolated", "conflict"})
_POLL_SECONDS: Final = 0.05
_ASK_SECONDS: Final = 5.0
_PURGE_SECONDS: Final = 2.0
_EMBEDDED_PARTITIONS: Final = 4
# The embedded broker names its lives so; it loses messages of idempotent producers when it is killed.
_EMBEDDED: Final = "assay-"


@dataclass(frozen=True, slots=True)
class TopicWriting:
    """Where events go. `delivery_seconds`: after which an unacknowledged event counts as not delivered."""

    connection: Connection
    topic: str
    dlq_topic: str | None = None
    delivery_seconds: float = 10.0


def producer_config(writing: TopicWriting, *, embedded: bool) -> dict[str, str | int | float | bool]:
    """The settings of the client: all replicas, no reordering, bounded time."""
    safe: dict[str, str | int | float | bool] = (
        {"enable.idempotence": False, "max.in.flight.requests.per.connection": 1}
        if embedded
        else {"enable.idempotence": True}
    )
    milliseconds = int(writing.delivery_seconds * 1000)
    return writing.connection.config | safe | {
        "acks": "all",
        "compression.type": "lz4",
        "delivery.timeout.ms": milliseconds,
        "request.timeout.ms": max(milliseconds // 2, 1000),
        "linger.ms": 5,
        "queue.buffering.max.messages": 100_000,
        "partitioner": "murmur2_random",
    }  # fmt: skip


class KafkaSink:
    """Publishes to one topic, and to a dead-letter topic what was refused, where there is one."""

    def __init__(self, writing: TopicWriting) -> None:
        self._writing = writing
        self._producer: Producer | None = None
        self._refusal: ConfigurationError | None = None
        self._broken = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="assay-kafka-producer")

    @property
    def name(self) -> str:
        """`kafka:topic`."""
        return f"kafka:{self._writing.topic}"

    @property
    def send_seconds(self) -> float:
        """Whatever the broker does: to find it, to deliver, to give up."""
        return _ASK_SECONDS + self._writing.delivery_seconds + _PURGE_SECONDS

    async def publish(self, events: Sequence[OutboxEvent]) -> list[Answer]:
        """Send a batch; see `EventSink`. Raises `ConfigurationError` for what a person must mend."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._publish, events)

    async def aclose(self) -> None:
        """End the client; nothing is waiting in it."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._drop)
        self._thread.shutdown(wait=False)

    # --- in the thread -------------------------------------------------------------------------------

    def _publish(self, events: Sequence[OutboxEvent]) -> list[Answer]:
        producer = self._producer or self._open()
        until = time.monotonic() + self._writing.delivery_seconds
        answers: list[Answer] = [Undelivered(BEHIND)] * len(events)
        stuck: set[tuple[str, str]] = set()
        for wave in waves(events):
            going = [place for place in wave if events[place].aggregate not in stuck]
            round_ = _Round(self._writing, producer, [events[place] for place in going], until)
            for place, answer in zip(going, round_.send(), strict=True):
                answers[place] = answer
                if isinstance(answer, Undelivered):
                    stuck.add(events[place].aggregate)
            self._broken |= round_.broken
            if round_.broken:
                break
        if self._broken:
            self._drop()
        if self._refusal is not None:
            refusal, self._refusal = self._refusal, None
            if not any(isinstance(answer, Delivered) for answer in answers):
                raise refusal
        return _or_away(answers)

    def _open(self) -> Producer:
        """Ask who the broker is, whether the topics are there, and make the client to suit."""
        config = self._writing.connection.config
        asking = Producer(config | {"error_cb": self._on_error})
        try:
            found = asking.list_topics(timeout=_ASK_SECONDS)
        except KafkaException as error:
            problem = error.args[0]
            refusal, self._refusal = self._refusal or refusal_of(problem), None
            raise refusal or SinkUnavailable(code_of(problem)) from None
        embedded = (found.cluster_id or "").startswith(_EMBEDDED)
        wanted = [each for each in (self._writing.topic, self._writing.dlq_topic) if each is not None]
        missing = [
            each for each in wanted if each not in found.topics or found.topics[each].error is not None
        ]
        if missing and not embedded:
            raise ConfigurationError(f"There is no topic {missing[0]} at these brokers; create it first.")
        if missing:
            _make_topics(config, missing)
        settings = producer_config(self._writing, embedded=embedded)
        self._producer, self._broken = Producer(settings | {"error_cb": self._on_error}), False
        return self._producer

    def _on_error(self, error: KafkaError) -> None:
        self._refusal = refusal_of(error) or self._refusal
        self._broken |= error.fatal()

    def _drop(self) -> None:
        """Forget the client, and what it may still hold."""
        producer, self._producer, self._broken = self._producer, None, False
        if producer is not None:
            producer.purge()
            producer.flush(_PURGE_SECONDS / 2)


def _make_topics(config: Mapping[str, str | int | float | bool], names: Sequence[str]) -> None:
    """Topics of the embedded broker, which forgets them with all else whenever it starts."""
    topics = [NewTopic(name, num_partitions=_EMBEDDED_PARTITIONS, replication_factor=1) for name in names]
    admin = AdminClient(dict(config))  # kept: answers to a client that is gone never come
    for made in admin.create_topics(topics, operation_timeout=_ASK_SECONDS).values():
        try:
            made.result(_ASK_SECONDS)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise SinkUnavailable(code_of(error.args[0])) from None


def _or_away(answers: list[Answer]) -> list[Answer]:
    """The answers; raises `SinkUnavailable` where nothing arrived and nothing was refused for good."""
    failed = [a for a in answers if isinstance(a, Undelivered)]
    if answers and len(failed) == len(answers) and not any(a.poison for a in failed):
        raise SinkUnavailable(next(a.reason for a in failed if a.reason != BEHIND))
    return answers


class _Round:
    """Messages of different aggregates that are on their way together. `broken`: the client is done for."""

    def __init__(
        self, writing: TopicWriting, producer: Producer, events: Sequence[OutboxEvent], until: float
    ) -> None:
        self._writing = writing
        self._producer = producer
        self._events = events
        self._until = until
        self._answers: dict[int, Answer] = {}
        self._open = 0
        self.broken = False

    def send(self) -> list[Answer]:
        """Send, wait for every report, purge what takes too long; an answer for each event."""
        for place, event in enumerate(self._events):
            try:
                self._produce(self._writing.topic, place, event)
                if self._writing.dlq_topic is not None and event.kind in DEAD:
                    self._produce(self._writing.dlq_topic, place, _without_label(event))
            except UnfitEvent as unfit:
                self._answers[place] = Undelivered(unfit.reason, poison=True)
        while self._open and time.monotonic() < self._until:
            self._producer.poll(_POLL_SECONDS)
        if self._open:
            self.broken = True
            self._producer.purge()
            self._producer.flush(_PURGE_SECONDS / 2)
        return [self._answers.get(place, Undelivered("timed_out")) for place in range(len(self._events))]

    def _produce(self, topic: str, place: int, event: OutboxEvent) -> None:
        body, key = body_of(event), event.key.encode()
        headers: list[tuple[str, str | bytes | None]] = list(headers_of(event).items())
        report = self._report(place, main=topic == self._writing.topic)
        while True:
            try:
                self._producer.produce(topic, body, key=key, headers=headers, on_delivery=report)
            except BufferError:
                if time.monotonic() < self._until:
                    self._producer.poll(_POLL_SECONDS)
                    continue
                self._answers[place] = Undelivered("timed_out")
            except KafkaException as error:
                self._failed(place, error.args[0])
            else:
                self._open += 1
                self._producer.poll(0)
            return

    def _report(self, place: int, *, main: bool) -> Callable[[KafkaError | None, Message], None]:
        """What to do with a report. A failure of either message, topic or dead letters, is the event's."""

        def report(error: KafkaError | None, message: Message) -> None:
            self._open -= 1
            if error is not None:
                self._failed(place, error)
            elif main:
                self._answers.setdefault(place, Delivered(f"{message.partition()}/{message.offset()}"))

        return report

    def _failed(self, place: int, error: KafkaError) -> None:
        self.broken |= error.fatal()
        poison = poison_of(error)
        self._answers[place] = Undelivered(poison or code_of(error), poison=poison is not None)


def _without_label(event: OutboxEvent) -> OutboxEvent:
    """The event for the dead-letter topic: where and why, never what was answered."""
    if event.payload.get("label") is None:
        return event
    return replace(event, payload={**event.payload, "label": None})
