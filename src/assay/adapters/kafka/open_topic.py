"""Opens a topic as a source: which one it is, whether it is there, how its broker counts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from assay.adapters.kafka.membership import Membership
from assay.adapters.kafka.problems import failure_of
from assay.adapters.kafka.topic_identity import TopicWatch
from assay.adapters.kafka.topic_source import TopicSource
from assay.domain.failures import ConfigurationError
from assay.domain.record_mapping import SourceRules, check_mapping
from assay.pipeline.fetching import Documents

_ASK_SECONDS: Final = 10.0
# The embedded broker names its lives so.
EMBEDDED: Final = "assay-"
_EMBEDDED_SESSION: Final = 6.0
_EMBEDDED_LEAVING: Final = 1.5
_UNKNOWN: Final = KafkaError.UNKNOWN_TOPIC_OR_PART
MAX_RECORD_BYTES: Final = 8 << 20
# The client's own store of fetched messages, before ours: small, for what is paused is fetched again.
_QUEUED_KBYTES: Final = 16 * 1024


@dataclass(frozen=True, slots=True)
class TopicReading:
    """How a topic is read. `connection`: the client's settings for brokers and security. `group_protocol` is
    `classic` or `consumer` (KIP-848), `assignor` counts for the first."""

    topic: str
    group: str
    connection: Mapping[str, Any] = field(repr=False)
    mapping: Mapping[str, str] = field(default_factory=dict)
    group_protocol: str = "classic"
    assignor: str = "cooperative-sticky"
    instance_id: str | None = None
    session_seconds: float = 20.0
    from_end: bool = False
    documents: Documents | None = None
    max_record_bytes: int = MAX_RECORD_BYTES


def consumer_config(reading: TopicReading, *, embedded: bool) -> dict[str, Any]:
    """The settings of the client. Nothing is committed, stored or reset by itself.

    `embedded`: the in-memory broker, which settles groups slowly and knows the older ways alone.
    """
    config: dict[str, Any] = {
        **reading.connection,
        "group.id": reading.group,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        # A position that the broker no longer has is told, not mended.
        "auto.offset.reset": "error",
        "queued.max.messages.kbytes": _QUEUED_KBYTES,
        "fetch.message.max.bytes": min(reading.max_record_bytes, 1 << 20),
        "isolation.level": "read_committed",
        "enable.partition.eof": False,
        # Half of it is how long the embedded broker keeps a message back (251 ms at 500, 26 ms at 50).
        "fetch.wait.max.ms": 50 if embedded else 500,
        # A topic that is made after its workers start is found that soon.
        "topic.metadata.refresh.interval.ms": 1000 if embedded else 10_000,
    }
    if reading.instance_id is not None and not embedded:
        config["group.instance.id"] = reading.instance_id
    if reading.group_protocol == "consumer":
        if embedded:
            raise ConfigurationError(
                "The embedded broker does not share partitions itself; leave --group-protocol out."
            )
        return config | {"group.protocol": "consumer"}
    return config | {
        "partition.assignment.strategy": "range" if embedded else reading.assignor,
        # A member learns of a rebalance at its next heartbeat (Apache Kafka: 0.5 s instead of 3).
        "heartbeat.interval.ms": 500 if embedded else 1000,
        "session.timeout.ms": int(1000 * (_EMBEDDED_SESSION if embedded else reading.session_seconds)),
    }


def open_topic(reading: TopicReading) -> TopicSource:
    """The topic as a source. Raises `ConfigurationError` where it is not there or the broker does not answer.

    Which topic it is: cluster, topic (its id where the broker gives one: a topic that was deleted and made
    again is another) and group. Positions in PostgreSQL are those of a group.
    """
    check_mapping(dict(reading.mapping))
    admin = AdminClient(dict(reading.connection))
    cluster, topic_id, partitions = _identify(admin, reading)
    parts = ("kafka", cluster, reading.topic, topic_id, reading.group)
    fingerprint = hashlib.sha256("\x1f".join(parts).encode()).hexdigest()
    embedded = cluster.startswith(EMBEDDED)
    config = consumer_config(reading, embedded=embedded)
    cooperative = "cooperative" in config.get("partition.assignment.strategy", "cooperative")
    membership = Membership(
        config, reading.topic, cooperative=cooperative, trust_end=not embedded,
        from_end=0 if embedded or not reading.from_end or _has_committed(reading, partitions) else partitions,
        is_other=TopicWatch(reading.connection, reading.topic, cluster=cluster, topic_id=topic_id).is_other,
        leave_within=_EMBEDDED_LEAVING if embedded else 0.0,
    )  # fmt: skip
    rules = SourceRules(
        reading.topic, reading.mapping, reading.max_record_bytes, documents=reading.documents is not None
    )
    return TopicSource(membership, rules, fingerprint=fingerprint, documents=reading.documents)


def _identify(admin: AdminClient, reading: TopicReading) -> tuple[str, str, int]:
    """The ids of cluster and topic, and how many partitions it has."""
    try:
        metadata = admin.list_topics(timeout=_ASK_SECONDS)
        found = metadata.topics.get(reading.topic)
        if found is None or (found.error is not None and found.error.code() == _UNKNOWN):
            raise ConfigurationError(
                f"There is no topic {reading.topic} at {_brokers(reading)}; create it, or check the name."
            )
        if found.error is not None:
            raise KafkaException(found.error)
        described = admin.describe_topics(TopicCollection([reading.topic]), request_timeout=_ASK_SECONDS)
        topic_id = str(described[reading.topic].result().topic_id)
    except KafkaException as error:
        raise _no_answer(error, reading) from None
    return str(metadata.cluster_id or ""), topic_id, len(found.partitions)


def _has_committed(reading: TopicReading, partitions: int) -> bool:
    """Whether the broker knows the group: then what it has not committed was added since, or never read."""
    # By a consumer that never joins: the client's admin side dies of some answers.
    asking = Consumer({**reading.connection, "group.id": reading.group, "enable.auto.commit": False})
    try:
        places = [TopicPartition(reading.topic, each) for each in range(partitions)]
        return any(each.offset >= 0 for each in asking.committed(places, timeout=_ASK_SECONDS))
    except KafkaException as error:
        raise _no_answer(error, reading) from None
    finally:
        asking.close()


def _no_answer(error: KafkaException, reading: TopicReading) -> ConfigurationError:
    failure = failure_of(error, reading.topic)
    if isinstance(failure, ConfigurationError):
        return failure
    return ConfigurationError(
        f"No broker answers at {_brokers(reading)} ({error.args[0].name()}); check --brokers and whether it "
        "runs."
    )


def _brokers(reading: TopicReading) -> str:
    return str(reading.connection.get("bootstrap.servers", ""))
