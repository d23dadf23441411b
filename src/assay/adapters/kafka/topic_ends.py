"""Where topics begin and end, and what a group has committed: looked at by a client that joins no group."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Final, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from assay.adapters.kafka.messages import timestamp_of
from assay.adapters.kafka.open_topic import EMBEDDED, TopicReading, open_topic
from assay.adapters.kafka.problems import failure_of, is_passing
from assay.adapters.kafka.security import Connection
from assay.domain.failures import ConfigurationError

_ASK_SECONDS: Final = 10.0
_READ_SECONDS: Final = 5.0
_QUIET_SECONDS: Final = 0.3
_POLL_SECONDS: Final = 0.1
_BATCH: Final = 500
# A look at one message of a partition must not fetch megabytes of those behind it.
_FETCH_BYTES: Final = 64 * 1024

Place = tuple[str, int]
"""Topic and partition."""


@dataclass(frozen=True, slots=True)
class PartitionEnds:
    """The first offset that the broker has, one after the last, and what the group has committed."""

    partition: int
    low: int
    high: int
    committed: int | None


@dataclass(frozen=True, slots=True)
class TopicEnds:
    """`fingerprint`: which topic it is for the group, as workers register it."""

    topic: str
    fingerprint: str
    partitions: tuple[PartitionEnds, ...]


class TopicLook:
    """Looks at topics; commits nothing. Every method raises `ConfigurationError` where no broker answers, or
    refuses."""

    def __init__(self, connection: Connection, group: str) -> None:
        self._connection = connection
        self._group = group
        self._consumer = Consumer({
            **connection.config, "group.id": group, "enable.auto.commit": False,
            "enable.auto.offset.store": False, "auto.offset.reset": "earliest",
            "fetch.message.max.bytes": _FETCH_BYTES, "fetch.wait.max.ms": 50,
            "isolation.level": "read_committed",
        })  # fmt: skip
        self._embedded = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()

    def partitions(self) -> dict[str, list[int]]:
        """The topics that are there, with their partitions. All are listed: to ask for one may make it."""
        try:
            found = self._consumer.list_topics(timeout=_ASK_SECONDS)
        except KafkaException as error:
            raise self._failure(error, "") from None
        self._embedded = (found.cluster_id or "").startswith(EMBEDDED)
        return {name: sorted(each.partitions) for name, each in found.topics.items() if each.error is None}

    def ends(self, topic: str, partitions: Sequence[int]) -> TopicEnds:
        """Low and high watermarks and committed offsets of a topic."""
        which = open_topic(TopicReading(topic=topic, group=self._group, connection=self._connection.config))
        committed = self._committed(topic, partitions)
        try:
            marks = {each: self._watermarks(topic, each) for each in partitions}
        except KafkaException as error:
            raise self._failure(error, topic) from None
        if self._embedded:
            marks = self._counted(topic, marks)
        ends = tuple(PartitionEnds(each, *marks[each], committed.get(each)) for each in partitions)
        return TopicEnds(topic, which.fingerprint or "", ends)

    def written_at(self, places: Mapping[Place, int], *, needed: bool) -> dict[Place, datetime]:
        """The timestamps of the first messages from these offsets on; of those that come in a few seconds.

        Where they are `needed`, a topic that this user may not read is told; else it has none.
        """
        found: dict[Place, datetime] = {}
        left = set(places)
        refused: list[tuple[KafkaError, str]] = []

        def take(message: Message, place: Place) -> None:
            at = timestamp_of(message.timestamp())
            error = message.error()
            if error is not None and not is_passing(error):
                refused.append((error, place[0]))
            if place in left and error is None and at is not None:
                found[place] = datetime.fromtimestamp(at / 1000, UTC)
            left.discard(place)

        self._read(places, take, lambda _: not left)
        for problem, topic in refused if needed else ():
            raise self._failure(KafkaException(problem), topic)
        return found

    def _committed(self, topic: str, partitions: Sequence[int]) -> dict[int, int]:
        places = [TopicPartition(topic, each) for each in partitions]
        try:
            found = self._consumer.committed(places, timeout=_ASK_SECONDS)
            for each in found:
                if each.error is not None:
                    raise KafkaException(each.error)
        except KafkaException as error:
            if self._embedded:
                return {}  # its answer to a group that is not there yet
            told = failure_of(error, topic)
            raise (
                told
                if isinstance(told, ConfigurationError)
                else ConfigurationError(
                    f"The brokers do not tell what the group {self._group} has committed "
                    f"({error.args[0].name()}); check its coordinator, and that this user may "
                    "describe the group."
                )
            ) from None
        return {each.partition: each.offset for each in found if each.offset >= 0}

    def _watermarks(self, topic: str, partition: int) -> tuple[int, int]:
        found = self._consumer.get_watermark_offsets(
            TopicPartition(topic, partition), timeout=_ASK_SECONDS, cached=False
        )
        if found is None:
            raise ConfigurationError(
                f"Partition {partition} of {topic} does not answer; check its leader at the brokers."
            )
        return found

    def _counted(self, topic: str, marks: Mapping[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
        """The embedded broker's high watermark is the start of its last batch, and one: read that batch."""
        last = {(topic, each): high - 1 for each, (low, high) in marks.items() if high > low}
        high = {place: offset + 1 for place, offset in last.items()}
        left = set(last)

        def take(message: Message, place: Place) -> None:
            left.discard(place)
            if message.error() is None:
                high[place] = max(high[place], (message.offset() or 0) + 1)

        self._read(last, take, lambda quiet: not left and quiet > _QUIET_SECONDS)
        return {each: (low, high.get((topic, each), end)) for each, (low, end) in marks.items()}

    def _read(
        self, places: Mapping[Place, int], take: Callable[[Message, Place], None],
        enough: Callable[[float], bool],
    ) -> None:  # fmt: skip
        """Read from these offsets until it is `enough`, given the seconds since the last message."""
        if not places:
            return
        self._consumer.assign([TopicPartition(*place, offset) for place, offset in places.items()])
        heard = time.monotonic()
        until = heard + _READ_SECONDS
        while not enough(time.monotonic() - heard) and time.monotonic() < until:
            for message in self._consumer.consume(_BATCH, _POLL_SECONDS):
                topic, partition = message.topic(), message.partition()
                if topic is not None and partition is not None:
                    heard = time.monotonic()
                    take(message, (topic, partition))
        self._consumer.unassign()

    def _failure(self, error: KafkaException, topic: str) -> ConfigurationError:
        told = failure_of(error, topic)
        if isinstance(told, ConfigurationError):
            return told
        return ConfigurationError(
            f"No broker answers at {self._connection.brokers} ({error.args[0].name()}); check the brokers "
            "and whether they run."
        )
