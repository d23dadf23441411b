"""Topics as a whole: made where missing, filled with values, read to their end, searched for the unread."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from assay.adapters.kafka.problems import failure_of
from assay.adapters.kafka.security import Connection
from assay.domain.failures import AssayError, ConfigurationError

# A record may have 8 MiB; a message has its key and headers beside.
_MOST_BYTES: Final = 9 << 20
_ASK_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.1
_EMBEDDED: Final = "assay-"
_EMBEDDED_PARTITIONS: Final = 4
_DEFAULT: Final = -1
_BATCH: Final = 500


def make_topics(connection: Connection, names: Sequence[str]) -> list[str]:
    """Make those that are missing; their names. The embedded broker's have 4 partitions, others what their
    broker sets. Raises `AssayError` where the broker does not answer, or refuses."""
    admin = AdminClient(connection.config)
    found = _partitions(admin, names)
    missing = [name for name in names if name not in found]
    if not missing:
        return []
    embedded = (admin.list_topics(timeout=_ASK_SECONDS).cluster_id or "").startswith(_EMBEDDED)
    topics = [
        NewTopic(
            name, num_partitions=_EMBEDDED_PARTITIONS if embedded else _DEFAULT,
            replication_factor=1 if embedded else _DEFAULT,
        )
        for name in missing
    ]  # fmt: skip
    for name, made in admin.create_topics(topics, operation_timeout=_ASK_SECONDS).items():
        try:
            made.result(_ASK_SECONDS)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise failure_of(error, name) from None
    return missing


def send_values(connection: Connection, topic: str, values: Iterable[tuple[str | None, bytes]]) -> int:
    """Send keyed values, in order for each key, and wait until the broker has all; how many.

    Raises `ConfigurationError` for a topic that is missing, `AssayError` where some did not arrive.
    """
    _check_there(connection, topic)
    failed: list[str] = []
    producer = Producer({**connection.config, "acks": "all", "linger.ms": 5, "partitioner": "murmur2_random",
                         "max.in.flight.requests.per.connection": 1,
                         "message.max.bytes": _MOST_BYTES})  # fmt: skip

    def report(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failed.append(error.name())

    sent = 0
    for key, value in values:
        while True:
            try:
                producer.produce(topic, value, key=key, on_delivery=report)
                break
            except BufferError:
                producer.poll(_POLL_SECONDS)
            except KafkaException as error:
                # Too large for a message, most likely: this one is not sent, the others are.
                failed.append(error.args[0].name())
                break
        producer.poll(0)
        sent += 1
    left = producer.flush(6 * _ASK_SECONDS)
    if failed or left:
        why = failed[0] if failed else "no answer"
        raise AssayError(
            f"{len(failed) + left} of {sent} messages did not reach {topic} ({why}): mend what is too large, "
            "then send all of them again; what comes twice is known by its record id."
        )
    return sent


def read_values(connection: Connection, topic: str, *, silence_seconds: float | None) -> Iterator[bytes]:
    """Values of a topic from its beginning, of all partitions: it ends after so long without one, on a busy
    topic once it has come so far. None: it goes on for ever, with what comes.

    Reads without a group and commits nothing. Raises `ConfigurationError` for a topic that is missing.
    """
    places = [TopicPartition(topic, each, OFFSET_BEGINNING) for each in _check_there(connection, topic)]
    yield from (message.value() or b"" for message in _read(connection, places, silence_seconds))


def count_unread(connection: Connection, topic: str, group: str, *, silence_seconds: float) -> int:
    """How many messages the group has not committed yet, counted by reading them: the embedded broker's high
    watermarks tell less. 0 where there is no such topic."""
    admin = AdminClient(connection.config)
    partitions = _partitions(admin, [topic]).get(topic, [])
    if not partitions:
        return 0
    places = [TopicPartition(topic, each) for each in partitions]
    # By a consumer that never joins: the admin client crashes when the answer is an error.
    asking = Consumer({**connection.config, "group.id": group, "enable.auto.commit": False})
    try:
        found = asking.committed(places, timeout=_ASK_SECONDS)
        known = {each.partition: each.offset for each in found if each.error is None}
    except KafkaException:
        known = {}  # no such group yet
    finally:
        asking.close()
    starts = [TopicPartition(topic, each, max(known.get(each, 0), 0)) for each in partitions]
    return sum(1 for _ in _read(connection, starts, silence_seconds))


def _read(
    connection: Connection, places: Sequence[TopicPartition], silence_seconds: float | None
) -> Iterator[Message]:
    consumer = Consumer({**connection.config, "group.id": "assay-topic", "enable.auto.commit": False,
                         "auto.offset.reset": "earliest", "fetch.wait.max.ms": 50})  # fmt: skip
    try:
        consumer.assign(list(places))
        # By silence, for the embedded broker does not tell where a partition ends. On a topic that is never
        # silent, what is newer than the wait prolongs nothing; no message is passed over for its time, which
        # is its producer's own.
        newest = time.time() + (silence_seconds or 0.0)
        heard = time.monotonic()
        while silence_seconds is None or time.monotonic() - heard < silence_seconds:
            for message in consumer.consume(_BATCH, _POLL_SECONDS):
                if message.error() is None:
                    if message.timestamp()[1] <= newest * 1000:
                        heard = time.monotonic()
                    yield message
    finally:
        consumer.close()


def _check_there(connection: Connection, topic: str) -> list[int]:
    partitions = _partitions(AdminClient(connection.config), [topic]).get(topic)
    if partitions is None:
        raise ConfigurationError(f"There is no topic {topic} at these brokers; create it, or name another.")
    return partitions


def _partitions(admin: AdminClient, names: Sequence[str]) -> dict[str, list[int]]:
    """The partitions of those that are there. All are listed: to ask for one may make it."""
    try:
        topics = admin.list_topics(timeout=_ASK_SECONDS).topics
    except KafkaException as error:
        raise failure_of(error, ", ".join(names)) from None
    return {
        name: sorted(topics[name].partitions) for name in names if name in topics and not topics[name].error
    }
