"""What a killed broker still knows: Apache Kafka all that it acknowledged, the embedded one nothing."""

from __future__ import annotations

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from kafka.brokers import BrokerUnderTest, make_topic
from kafka.clients import Member, members, poll_until, producer, send

pytestmark = pytest.mark.timeout(240)

GROUP = "readers"


def numbered(start: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, end)]


def read_all(broker: BrokerUnderTest, topic: str, count: int) -> list[bytes | None]:
    """The first `count` values or more, read without a group from partition 0 on."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    partitions = len(admin.list_topics(topic, timeout=30).topics[topic].partitions)
    reader = Member(broker.bootstrap, "nobody").read_from(topic, partitions)
    with members(reader):
        poll_until(lambda: len(reader.got) >= count, reader)
    return reader.values()


def test_kill_and_restart_under_a_producer_and_a_reader(own_broker: BrokerUnderTest) -> None:
    broker, keeps = own_broker, own_broker.kind == "apache"
    topic = make_topic(broker.bootstrap)
    sender = producer(broker.bootstrap, acks="all", max_in_flight=1, enable_idempotence=keeps)
    reader = Member(broker.bootstrap, GROUP).subscribe(topic)
    with members(reader):
        assert {error for error, _ in send(sender, topic, numbered(0, 50))} == {None}
        poll_until(lambda: len(reader.got) >= 50, reader)
        reader.consumer.commit(offsets=[TopicPartition(topic, 0, 50)], asynchronous=False)
        before = broker.pid
        broker.kill()
        broker.restart()
        assert broker.pid != before
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        assert (topic in admin.list_topics(timeout=30).topics) == keeps
        if not keeps:
            make_topic(broker.bootstrap, name=topic)
        committed = reader.consumer.committed([TopicPartition(topic, 0)], timeout=30)
        assert [part.offset for part in committed] == [50 if keeps else -1001]
        reports = send(sender, topic, numbered(50, 100), partition=0)
        assert reports == [(None, (50 if keeps else 0) + number) for number in range(50)]
        poll_until(lambda: len(reader.got) >= 100, reader, seconds=60)
        assert reader.values() == numbered(0, 100), "the old members go on without being told"
    kept = read_all(broker, topic, 100 if keeps else 50)
    assert kept == numbered(0 if keeps else 50, 100)


def test_an_idempotent_producer_over_a_kill(own_broker: BrokerUnderTest) -> None:
    """It goes on with Apache Kafka. With the embedded broker it never delivers again, so it is not used."""
    broker, keeps = own_broker, own_broker.kind == "apache"
    topic = make_topic(broker.bootstrap)
    sender = producer(broker.bootstrap, enable_idempotence=True, message_timeout_ms=8_000)
    plain = producer(broker.bootstrap, enable_idempotence=False, message_timeout_ms=8_000)
    assert {error for error, _ in send(sender, topic, numbered(0, 50))} == {None}
    broker.kill()
    broker.restart()
    if not keeps:
        make_topic(broker.bootstrap, name=topic)
    said = {error.name() if error else None for error, _ in send(sender, topic, numbered(50, 60))}
    assert said == ({None} if keeps else {"_MSG_TIMED_OUT"})
    assert {error for error, _ in send(plain, topic, [b"control"])} == {None}
    expected = [*(numbered(0, 60) if keeps else []), b"control"]
    assert read_all(broker, topic, len(expected)) == expected
