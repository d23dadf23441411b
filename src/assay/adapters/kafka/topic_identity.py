"""Which topic it is, asked again while it is read: a topic of the same name may be another one."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from assay.domain.failures import AssayError

_EVERY_SECONDS: Final = 5.0
_ANSWER_SECONDS: Final = 10.0


class TopicWatch:
    """Knows the cluster and the topic that were opened; used by one thread, which never waits for an answer.

    The client does not tell: it goes on in the new topic at the offset it had in the old one, and passes over
    what lies before it.
    """

    def __init__(
        self, connection: Mapping[str, Any], topic: str, *, cluster: str, topic_id: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._connection = dict(connection)
        self._topic = topic
        self._known = (cluster, topic_id)
        self._clock = clock
        self._next = clock() + _EVERY_SECONDS
        self._admin: AdminClient | None = None
        self._asked: tuple[Future[Any], Future[Any]] | None = None

    def is_other(self) -> bool:
        """Whether the topic has been found to be another one; asks again every few seconds."""
        if self._asked is not None:
            if not all(each.done() for each in self._asked):
                return False
            cluster, topic = self._asked
            self._asked = None
            return self._differs(cluster, topic)
        if self._clock() >= self._next:
            self._next = self._clock() + _EVERY_SECONDS
            self._admin = self._admin or AdminClient(self._connection)
            topics = TopicCollection([self._topic])
            described = self._admin.describe_topics(topics, request_timeout=_ANSWER_SECONDS)
            cluster = self._admin.describe_cluster(request_timeout=_ANSWER_SECONDS)
            self._asked = (cluster, described[self._topic])
        return False

    def _differs(self, cluster: Future[Any], topic: Future[Any]) -> bool:
        try:
            found = (str(cluster.result().cluster_id or ""), str(topic.result().topic_id))
        except KafkaException:
            # No broker, or no such topic: the client finds that out itself, or it passes.
            return False
        return found != self._known


def is_cut_off(error: KafkaError) -> bool:
    """Whether a position was given up because the log no longer has what came before it: the client tells it
    in words alone."""
    return KafkaError(KafkaError._LOG_TRUNCATION).str() in error.str()


def lost_its_end(topic: str, partition: int) -> AssayError:
    """The same topic, whose end the broker has lost. What comes now gets offsets that count as done, in
    PostgreSQL and at the broker: no position of the group is good any more."""
    return AssayError(
        f"Partition {partition} of the topic {topic} was cut off before the place up to which this group has "
        "read: the broker has lost messages, and gives their offsets to new ones. Reading stopped, so that "
        "none is passed over; start again with another --group: it reads the whole topic, and knows the "
        "records that were seen before."
    )
