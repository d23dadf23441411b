"""`assay lag` beside real workers and brokers: what it counts, and how it ends for monitors."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from kafka.brokers import BrokerUnderTest
from kafka.publishing import tell_results
from kafka.topic_runs import as_messages, produce, settled, tickets_of, until, work_tickets, working
from labelling_project import Project
from practice_runs import practising, ticket_project

TICKETS: Final = 40
PARTITIONS: Final = 2
NOBODY: Final = "127.0.0.1:1"


@pytest.fixture
def project(tmp_path: Path, db_url: str) -> Project:
    return ticket_project(tmp_path, db_url, TICKETS)


def look(project: Project, broker: BrokerUnderTest, *options: str) -> dict[str, Any]:
    """What the command prints, as an object."""
    told = project.done("lag", "tickets.py", "--brokers", broker.bootstrap, "--json", *options)
    return dict(json.loads(told))


def column(found: dict[str, Any], name: str) -> list[Any]:
    """One figure of all partitions of the only topic."""
    (topic,) = found["topics"]
    return [each[name] for each in topic["partitions"]]


async def label(project: Project, broker: BrokerUnderTest, topic: str, records: int) -> None:
    """A worker settles so many records, and ends."""
    async with practising(project) as vendor:
        with working(project, *work_tickets(broker, topic, vendor.base_url)) as worker:
            await asyncio.to_thread(until, lambda: settled(project) == records, "all settled", worker)
            worker.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(worker.wait, 60) == 0


async def test_lag_is_what_postgresql_has_not_settled(
    project: Project, broker: BrokerUnderTest, new_topic: Callable[[int], str]
) -> None:
    topic = new_topic(PARTITIONS)
    messages = as_messages(tickets_of(project))
    produce(broker.bootstrap, topic, messages[:12], partition=0)
    produce(broker.bootstrap, topic, messages[12:20], partition=1)
    await label(project, broker, topic, 20)
    done = look(project, broker)
    assert column(done, "high") == column(done, "settled") == column(done, "committed") == [12, 8]
    assert (done["lag"], done["oldest_unsettled_seconds"], done["unfinished"]) == (0, None, 0)
    assert done["topics"][0]["opened"]
    produce(broker.bootstrap, topic, messages[20:23], partition=1)
    more = look(project, broker)
    assert (column(more, "high"), column(more, "lag"), more["lag"]) == ([12, 11], [0, 3], 3)
    assert column(more, "oldest_unsettled_seconds")[0] is None
    assert 0 <= more["oldest_unsettled_seconds"] < 60
    # A database that was restored from a backup: what the broker has as committed is to be read again.
    with psycopg.connect(project.database_url) as db:
        db.execute("UPDATE assay.source_checkpoints SET committed_offset = 2 WHERE partition_no = 0")
    older = look(project, broker)
    assert (column(older, "settled"), column(older, "committed")) == ([2, 8], [12, 8])
    assert column(older, "lag") == [10, 3]


async def test_a_topic_that_nobody_reads_is_all_lag(
    project: Project, broker: BrokerUnderTest, new_topic: Callable[[int], str]
) -> None:
    topic = new_topic(PARTITIONS)
    produce(broker.bootstrap, topic, as_messages(tickets_of(project)[:7]), partition=0)
    found = look(project, broker, "--topic", topic)
    assert (found["lag"], column(found, "settled"), column(found, "committed")) == (7, [None] * 2, [None] * 2)
    assert not found["topics"][0]["opened"]
    page = project.done("lag", "tickets.py", "--brokers", broker.bootstrap, "--topic", topic)
    assert f"No worker of the group assay-tickets has opened {topic} as it is now" in page
    await label(project, broker, topic, 7)
    other = look(project, broker, "--group", "another")
    assert (other["lag"], other["topics"][0]["opened"]) == (7, False)


async def test_accepted_records_are_unfinished_until_they_settle(
    project: Project, broker: BrokerUnderTest, new_topic: Callable[[int], str]
) -> None:
    topic = new_topic(PARTITIONS)
    async with practising(project, latency=60) as vendor:
        with working(project, *work_tickets(broker, topic, vendor.base_url)) as worker:
            await asyncio.to_thread(
                produce, broker.bootstrap, topic, as_messages(tickets_of(project)[:5]), partition=1
            )
            await asyncio.to_thread(
                until, lambda: project.states() == {"processing": 5}, "all claimed", worker
            )
            found = await asyncio.to_thread(look, project, broker)
            worker.kill()
    assert (column(found, "unfinished"), found["unfinished"], found["lag"]) == ([0, 5], 5, 5)
    assert 0 <= found["oldest_unfinished_seconds"] < 60
    # Whoever died has left them behind: they are unfinished until somebody takes them over.
    assert column(look(project, broker), "unfinished") == [0, 5]


async def test_limits_end_with_one_and_say_why(
    project: Project, broker: BrokerUnderTest, new_topic: Callable[[int], str]
) -> None:
    topic = new_topic(PARTITIONS)
    produce(broker.bootstrap, topic, as_messages(tickets_of(project)[:4]), partition=0)
    asked = ("lag", "tickets.py", "--brokers", broker.bootstrap, "--topic", topic)
    over = project.finished(*asked, "--fail-over", "3", ASSAY_LOG="human")
    assert (over.returncode, over.stderr) == (1, "assay: 4 messages not settled, over 3.\n")
    assert topic in over.stdout
    assert project.finished(*asked, "--fail-over", "4", "--older-than", "1h").returncode == 0
    await label(project, broker, topic, 4)
    # The four events of the labels, and nobody who publishes.
    waiting = look(project, broker)
    assert [(each["sink"], each["publishers"], each["backlog"]) for each in waiting["outbox"]] == [
        (None, 0, 4)
    ]
    tell_results(project, 6)
    events = project.finished("lag", "tickets", "--brokers", broker.bootstrap, "--fail-over", "9")
    assert (events.returncode, events.stderr) == (1, "assay: 10 events not published, over 9.\n")
    with psycopg.connect(project.database_url) as db:
        db.execute("UPDATE assay.outbox_events SET created_at = created_at - interval '3 hours'")
    aged = project.finished("lag", "tickets", "--brokers", broker.bootstrap, "--older-than", "2h")
    assert aged.returncode == 1
    assert "The oldest event that is not published has waited 3h, over 2h." in aged.stderr


async def test_a_publisher_is_seen_with_its_sink(
    project: Project, broker: BrokerUnderTest, new_topic: Callable[[int], str]
) -> None:
    topic, events = new_topic(1), new_topic(1)
    produce(broker.bootstrap, topic, as_messages(tickets_of(project)[:2]))
    await label(project, broker, topic, 2)
    with project.started("publish", "--topic", events, "--brokers", broker.bootstrap) as publisher:
        receipts = "SELECT count(*) FROM assay.outbox_receipts"
        await asyncio.to_thread(until, lambda: project.one(receipts) == 2, "two receipts", publisher)
        found = await asyncio.to_thread(look, project, broker)
        publisher.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(publisher.wait, 60) == 0
    (sink,) = found["outbox"]
    assert (sink["sink"], sink["publishers"], sink["backlog"]) == (f"kafka:{events}", 1, 0)


async def test_messages_that_were_deleted_unread_are_told(
    project: Project, broker: BrokerUnderTest, new_topic: Callable[[int], str]
) -> None:
    """The embedded broker deletes nothing; there the ledger is put where such a deletion would leave it."""
    topic = new_topic(1)
    messages = as_messages(tickets_of(project))
    produce(broker.bootstrap, topic, messages[:5])
    await label(project, broker, topic, 5)
    asked = ("lag", "tickets.py", "--brokers", broker.bootstrap, "--fail-over", "100")
    if broker.kind == "apache":
        produce(broker.bootstrap, topic, messages[5:9])
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})  # kept: else its answers never come
        gone = admin.delete_records([TopicPartition(topic, 0, 7)])
        for each in gone.values():
            each.result(30)
        ended = project.finished(*asked)
        assert ended.returncode == 1
        assert f"2 messages of {topic}, partition 0, were deleted by the broker" in ended.stderr
        found = look(project, broker)
        assert (column(found, "expired"), column(found, "lag")) == ([2], [2])
    with psycopg.connect(project.database_url) as db:
        db.execute("UPDATE assay.source_checkpoints SET committed_offset = 50")
    assert column(look(project, broker), "beyond_end") == [True]
    assert "PostgreSQL knows of more than the brokers have" in project.done(*asked)


def test_what_cannot_be_told_ends_with_two(project: Project, broker: BrokerUnderTest) -> None:
    nothing = project.finished("lag", "tickets.py", "--brokers", broker.bootstrap)
    assert (nothing.returncode, nothing.stdout) == (2, "")
    assert "There is no pipeline 'tickets' in this database" in nothing.stderr
    missing = project.finished("lag", "tickets.py", "--brokers", broker.bootstrap, "--topic", "none-such")
    assert (missing.returncode, "There is no topic none-such" in missing.stderr) == (2, True)
    away = project.finished("lag", "tickets.py", "--brokers", NOBODY, "--topic", "t")
    assert (away.returncode, f"No broker answers at {NOBODY}" in away.stderr) == (2, True)
    no_database = project.finished(
        "lag", "tickets.py", "--brokers", broker.bootstrap, ASSAY_DATABASE_URL=f"postgresql://u:p@{NOBODY}/d"
    )
    assert (no_database.returncode, "PostgreSQL cannot be reached" in no_database.stderr) == (2, True)
    assert project.finished("lag", "tickets", "--older-than", "5 min").returncode == 2
    assert project.finished("lag", "tickets", "--watch", "--fail-over", "1").returncode == 2


async def test_watching_goes_on_until_a_signal(
    project: Project, broker: BrokerUnderTest, new_topic: Callable[[int], str]
) -> None:
    topic = new_topic(1)
    watching = ("lag", "tickets", "--topic", topic, "--brokers", broker.bootstrap, "--json", "--watch", "0.2")
    with project.started(*watching) as process:
        assert process.stdout is not None
        lines = [await asyncio.to_thread(process.stdout.readline) for _ in range(2)]
        process.send_signal(signal.SIGINT)
        assert await asyncio.to_thread(process.wait, 60) == 0
    assert [json.loads(line)["lag"] for line in lines] == [0, 0]
