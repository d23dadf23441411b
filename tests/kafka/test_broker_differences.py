"""What the two brokers have in common and where they differ: docs/brokers.md, line by line.

An expectation that differs is a pair. One that no longer differs fails here, so the page stays true.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from kafka.apache_kafka import ApacheKafka, jar_version
from kafka.brokers import BrokerUnderTest, make_topic
from kafka.clients import Member, Setting, members, poll_for, poll_until, producer, send

MakeTopic = Callable[[int], str]
Expected = TypeVar("Expected")

# The shared broker is started once per worker (--dist loadfile).
pytestmark = pytest.mark.timeout(120)


def by(broker: BrokerUnderTest, *, apache: Expected, embedded: Expected) -> Expected:
    """What this broker is expected to do."""
    return apache if broker.kind == "apache" else embedded


def group() -> str:
    return f"g-{secrets.token_hex(5)}"


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


def admin_of(broker: BrokerUnderTest) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})


def has_read(reader: Member, count: int) -> bool:
    return len(reader.got) >= count


def two_members(broker: BrokerUnderTest, topic: str, **settings: Setting) -> tuple[Member, Member]:
    """A member that holds all four partitions, and a second one that has just come."""
    name = group()
    first = Member(broker.bootstrap, name, **settings).subscribe(topic)
    poll_until(lambda: len(first.holds()) == 4, first)
    return first, Member(broker.bootstrap, name, **settings).subscribe(topic)


def test_its_version_is_its_own(broker: BrokerUnderTest) -> None:
    if isinstance(broker, ApacheKafka):
        assert broker.version() == jar_version()
        assert int(broker.version().partition(".")[0]) >= 4
    else:
        assert broker.version() == "Tansu 0.6.0"


def test_a_committed_offset_stays_but_not_what_is_said_with_it(
    broker: BrokerUnderTest, new_topic: MakeTopic
) -> None:
    topic, name = new_topic(2), group()
    writer, reader = Member(broker.bootstrap, name), Member(broker.bootstrap, name)
    with members(writer, reader):
        place = TopicPartition(topic, 0, 5, metadata="a word")
        writer.consumer.commit(offsets=[place], asynchronous=False)
        found = reader.consumer.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)], timeout=20)
    assert [part.offset for part in found] == [5, -1001]
    assert found[0].metadata == by(broker, apache="a word", embedded=None)


def test_the_end_of_a_partition_after_a_batch(broker: BrokerUnderTest, new_topic: MakeTopic) -> None:
    topic = new_topic(1)
    reports = send(producer(broker.bootstrap), topic, numbered(96))
    assert reports == [(None, number) for number in range(96)]
    reader = Member(broker.bootstrap, group())
    with members(reader):
        assert reader.consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=20) == (
            0,
            by(broker, apache=96, embedded=1),
        )
        reader.read_from(topic, 1)
        poll_until(lambda: len(reader.got) >= 96, reader)
        assert reader.values() == numbered(96), "all of them are there to be read"


def test_an_idempotent_producer_while_nothing_fails(broker: BrokerUnderTest, new_topic: MakeTopic) -> None:
    topic = new_topic(1)
    reports = send(producer(broker.bootstrap, enable_idempotence=True), topic, numbered(1000))
    assert reports == [(None, number) for number in range(1000)]
    reader = Member(broker.bootstrap, group()).read_from(topic, 1)
    with members(reader):
        poll_until(lambda: len(reader.got) >= 1000, reader)
        assert reader.values() == numbered(1000)


def test_headers_keys_and_empty_values_arrive_as_sent(broker: BrokerUnderTest, new_topic: MakeTopic) -> None:
    topic = new_topic(1)
    headers: list[tuple[str, str | bytes | None]] = [
        ("traceparent", b"00-1-2-01"),
        ("twice", b"a"),
        ("twice", b"b"),
        ("none", None),
    ]
    sender = producer(broker.bootstrap)
    sender.produce(topic, b"\x00\xff", key="schlüssel".encode(), headers=headers, timestamp=1_700_000_000_123)
    sender.produce(topic, None, key=b"gone")
    assert sender.flush(30) == 0
    reader = Member(broker.bootstrap, group()).read_from(topic, 1)
    with members(reader):
        poll_until(lambda: len(reader.got) == 2, reader)
    first, second = reader.got
    assert (first.value(), first.key(), first.headers()) == (b"\x00\xff", "schlüssel".encode(), headers)
    assert first.timestamp() == (1, 1_700_000_000_123)
    assert (second.value(), second.key()) == (None, b"gone")


def test_records_of_one_key_stay_in_order(broker: BrokerUnderTest, new_topic: MakeTopic) -> None:
    topic = new_topic(4)
    values = numbered(2000)
    # With several requests on their way a retry would reorder them: so young a topic may not know its leader.
    sender = producer(broker.bootstrap, linger_ms=1, max_in_flight_requests_per_connection=1)
    send(sender, topic, values, key=lambda number: b"key %d" % (number % 11))
    reader = Member(broker.bootstrap, group()).read_from(topic, 4)
    with members(reader):
        poll_until(lambda: len(reader.got) >= len(values), reader)
    homes: dict[bytes, set[int | None]] = {}
    orders: dict[bytes, list[int]] = {}
    for message in reader.got:
        key, value = message.key() or b"", message.value() or b""
        homes.setdefault(key, set()).add(message.partition())
        orders.setdefault(key, []).append(int(value))
    assert len(homes) == 11
    assert all(len(partitions) == 1 for partitions in homes.values())
    assert all(order == sorted(order) for order in orders.values())
    assert sum(map(len, orders.values())) == 2000


def test_a_second_member_with_the_same_static_name(broker: BrokerUnderTest, new_topic: MakeTopic) -> None:
    """Apache Kafka fences the first one; the embedded broker lets both read everything."""
    first, second = two_members(broker, new_topic(4), group_instance_id="one")
    with members(first, second):
        poll_until(lambda: len(second.holds()) == 4, first, second)
        poll_for(3.0, first, second)
        assert any(error.name() == "_FATAL" for error in first.errors) == by(
            broker, apache=True, embedded=False
        )
        assert len(first.holds()) == by(broker, apache=0, embedded=4)
        assert len(second.holds()) == 4


def test_the_new_group_protocol(broker: BrokerUnderTest, new_topic: MakeTopic) -> None:
    """`group.protocol=consumer` (KIP-848). The embedded broker assigns nothing, and says nothing."""
    topic, name = new_topic(4), group()
    both = [Member(broker.bootstrap, name, group_protocol="consumer").subscribe(topic) for _ in range(2)]
    with members(*both):
        if broker.kind == "apache":
            poll_until(lambda: all(len(member.holds()) == 2 for member in both), *both)
        else:
            poll_for(5.0, *both)
        assert [len(member.holds()) for member in both] == by(broker, apache=[2, 2], embedded=[0, 0])
        assert [member.errors for member in both] == [[], []]


def test_a_cooperative_rebalance_moves_only_what_must_move(
    broker: BrokerUnderTest, new_topic: MakeTopic
) -> None:
    first, second = two_members(broker, new_topic(4), partition_assignment_strategy="cooperative-sticky")
    with members(first, second):
        poll_until(lambda: len(first.holds()) == len(second.holds()) == 2, first, second)
        given_up = [parts for word, parts in first.told if word == "revoked"]
        assert given_up == [second.holds()], "the two that stay were never taken away"
        assert sorted(first.holds() + second.holds()) == [0, 1, 2, 3]


def test_a_range_rebalance_takes_everything_away_first(broker: BrokerUnderTest, new_topic: MakeTopic) -> None:
    first, second = two_members(broker, new_topic(4), partition_assignment_strategy="range")
    with members(first, second):
        poll_until(lambda: len(first.holds()) == len(second.holds()) == 2, first, second)
        assert ("revoked", [0, 1, 2, 3]) in first.told
        assert sorted(first.holds() + second.holds()) == [0, 1, 2, 3]


def test_the_first_member_waits_half_a_session(broker: BrokerUnderTest, new_topic: MakeTopic) -> None:
    """So the embedded broker needs a short session: 45 seconds, the default, would be a wait of 23."""
    alone = Member(broker.bootstrap, group(), session_timeout_ms=10_000).subscribe(new_topic(1))
    with members(alone):
        waited = poll_until(lambda: alone.holds() == [0], alone)
    assert (waited > 3.0) == by(broker, apache=False, embedded=True), waited


def test_a_topic_that_is_not_there_is_made_by_who_sends(broker: BrokerUnderTest) -> None:
    topic = f"auto-{secrets.token_hex(5)}"
    ((error, _),) = send(producer(broker.bootstrap), topic, [b"one"])
    assert error is None
    admin = admin_of(broker)
    made = admin.list_topics(topic, timeout=20).topics[topic]
    assert len(made.partitions) == by(broker, apache=1, embedded=4), "so make topics yourself"


def test_a_topic_that_is_not_there_is_said_to_who_reads(broker: BrokerUnderTest) -> None:
    topic = f"missing-{secrets.token_hex(5)}"
    reader = Member(broker.bootstrap, group()).subscribe(topic)
    with members(reader):
        poll_until(lambda: bool(reader.errors), reader)
    assert reader.errors[0].name() == "UNKNOWN_TOPIC_OR_PART"
    admin = admin_of(broker)
    assert topic not in admin.list_topics(timeout=20).topics, "reading does not make it"


def test_a_reader_behind_the_end_of_a_partition(broker: BrokerUnderTest, new_topic: MakeTopic) -> None:
    """Apache Kafka says that the offset is out of range; the embedded broker lets the reader wait for it."""
    topic = new_topic(1)
    send(producer(broker.bootstrap), topic, numbered(10))
    reader = Member(broker.bootstrap, group(), auto_offset_reset="error").read_from(topic, 1, offset=50)
    with members(reader):
        poll_for(3.0, reader)
    said = {error.name() for error in reader.errors}
    assert said == by(broker, apache={"_AUTO_OFFSET_RESET"}, embedded=set())


def test_how_soon_a_record_reaches_a_waiting_reader(broker: BrokerUnderTest, new_topic: MakeTopic) -> None:
    """At once, or after half of `fetch.wait.max.ms`, which is therefore short with the embedded broker."""
    topic, waits = new_topic(4), []
    sender = producer(broker.bootstrap, linger_ms=0)
    reader = Member(broker.bootstrap, group(), fetch_wait_max_ms=1000).read_from(topic, 4)
    with members(reader):
        poll_for(1.5, reader)
        for number in range(5):
            send(sender, topic, [b"one"], partition=number % 4)
            waits.append(poll_until(partial(has_read, reader, number + 1), reader))
    assert (sorted(waits)[2] > 0.3) == by(broker, apache=False, embedded=True), waits


def test_a_topic_made_after_its_reader_came(broker: BrokerUnderTest) -> None:
    """Soon only where metadata are fetched often; the default is every five minutes."""
    topic = f"late-{secrets.token_hex(5)}"
    reader = Member(broker.bootstrap, group(), topic_metadata_refresh_interval_ms=1000).subscribe(topic)
    with members(reader):
        poll_until(lambda: bool(reader.errors), reader)
        make_topic(broker.bootstrap, 2, name=topic)
        poll_until(lambda: reader.holds() == [0, 1], reader, seconds=15)


def test_what_was_aborted_is_hidden_from_who_reads_committed(
    broker: BrokerUnderTest, new_topic: MakeTopic
) -> None:
    topic = new_topic(1)
    sender = producer(broker.bootstrap, transactional_id=group())
    sender.init_transactions(30)
    for value, end in ((b"aborted", sender.abort_transaction), (b"kept", sender.commit_transaction)):
        sender.begin_transaction()
        sender.produce(topic, value)
        assert sender.flush(30) == 0
        end(30)
    reader = Member(broker.bootstrap, group(), isolation_level="read_committed").read_from(topic, 1)
    with members(reader):
        poll_until(lambda: b"kept" in reader.values(), reader)
    assert reader.values() == by(broker, apache=[b"kept"], embedded=[b"aborted", b"kept"])


def test_who_is_in_a_group(broker: BrokerUnderTest, new_topic: MakeTopic) -> None:
    name = group()
    member = Member(broker.bootstrap, name).subscribe(new_topic(1))
    admin = admin_of(broker)
    with members(member):
        poll_until(lambda: member.holds() == [0], member)
        described = admin.describe_consumer_groups([name], request_timeout=20)[name].result(30)
    assert len(described.members) == by(broker, apache=1, embedded=0)


def test_partitions_added_later(broker: BrokerUnderTest, new_topic: MakeTopic) -> None:
    topic = new_topic(2)
    admin = admin_of(broker)
    asked = admin.create_partitions([NewPartitions(topic, 6)], operation_timeout=20)[topic]
    if broker.kind == "apache":
        assert asked.result(30) is None
    else:
        with pytest.raises(KafkaException, match="not supported by broker"):
            asked.result(30)
    found = admin.list_topics(topic, timeout=20).topics[topic]
    assert len(found.partitions) == by(broker, apache=6, embedded=2)


def test_a_record_of_two_megabytes(broker: BrokerUnderTest, new_topic: MakeTopic) -> None:
    """Apache Kafka's own limit is 1 MB, `message.max.bytes`; the embedded broker has none of that size."""
    sender = producer(broker.bootstrap, message_max_bytes=4_000_000)
    ((error, _),) = send(sender, new_topic(1), [b"x" * 2_000_000])
    assert (error and error.name()) == by(broker, apache="MSG_SIZE_TOO_LARGE", embedded=None)
