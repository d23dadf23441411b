"""Publishers as processes against a broker: what arrives, kills at every point, stops past the lease."""

from __future__ import annotations

import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from kafka.brokers import BrokerUnderTest, make_topic
from kafka.publishing import (
    PARTITIONS,
    check_history,
    known_events,
    one,
    read_all,
    receipts,
    tell_results,
    to_topic,
    until,
)
from labelling_project import Project

KILLED = -signal.SIGKILL


@pytest.fixture
def project(tmp_path: Path, db_url: str) -> Project:
    return Project(tmp_path, db_url)


@pytest.fixture
def topic(new_topic: Callable[[int], str]) -> str:
    return new_topic(PARTITIONS)


def test_events_arrive_with_key_headers_and_receipt(
    project: Project, broker: BrokerUnderTest, topic: str
) -> None:
    told = tell_results(project, 20, last=2)
    assert f"Published {told} events to kafka:{topic}." in project.done(*to_topic(broker, topic, "--once"))
    got = read_all(broker.bootstrap, topic, known_events(project))
    check_history(project, got)
    assert len(got) == told
    assert all(each.key == each.aggregate.removeprefix("line/") for each in got)
    assert {each.headers["ce_type"] for each in got} == {"assay.result.completed.v1"}
    assert all(each.headers["ce_id"] == str(each.event_id) for each in got)
    with psycopg.connect(project.database_url) as db:
        places = db.execute("SELECT DISTINCT sink, position ~ '^[0-2]/[0-9]+$' FROM assay.outbox_receipts")
        assert places.fetchall() == [(f"kafka:{topic}", True)]


@pytest.mark.parametrize("point", ["before_publish", "after_send", "before_receipt", "after_receipt"])
def test_a_killed_publisher_is_followed_by_one_that_loses_nothing(
    project: Project, broker: BrokerUnderTest, topic: str, point: str
) -> None:
    told = tell_results(project, 30, last=4)
    command = to_topic(broker, topic, "--once", "--batch", "40")
    killed = project.finished(*command, ASSAY_CRASH=f"{point}:2")
    assert killed.returncode == KILLED, killed.stderr
    assert receipts(project) == {"after_receipt": 80}.get(point, 40)
    _end_leases(project)
    project.done(*command)
    got = read_all(broker.bootstrap, topic, known_events(project))
    check_history(project, got)
    assert len(got) == told + (40 if point in {"after_send", "before_receipt"} else 0)


def test_a_publisher_that_was_stopped_past_its_lease_reorders_nothing(
    project: Project, broker: BrokerUnderTest, topic: str
) -> None:
    tell_results(project, 50, last=6)
    with project.started(*to_topic(broker, topic, "--batch", "25")) as sleeper:
        until(lambda: receipts(project) > 0, "the first receipts")
        sleeper.send_signal(signal.SIGSTOP)
        _end_leases(project)
        project.done(*to_topic(broker, topic, "--once", "--batch", "25"))
        tell_results(project, 50, first=7, last=8)
        sleeper.send_signal(signal.SIGCONT)
        until(lambda: receipts(project) == 400, "all receipts")
        _end(sleeper)
    check_history(project, read_all(broker.bootstrap, topic, known_events(project)))


def test_three_publishers_share_and_one_may_be_killed(
    project: Project, broker: BrokerUnderTest, topic: str
) -> None:
    command = to_topic(broker, topic, "--batch", "50")
    with (
        project.started(*command) as first,
        project.started(*command) as second,
        project.started(*command) as third,
    ):
        until(lambda: one(project, _SHARES) == "{21,21,22}", "fair shares")
        tell_results(project, 200, last=3)
        until(lambda: receipts(project) > 100, "some receipts")
        third.kill()
        assert third.wait(30) == KILLED
        _end_leases(project, of_pid=third.pid)
        until(lambda: receipts(project) == 600, "all receipts")
        until(lambda: one(project, _SHARES) == "{32,32}", "shares of two")
        tell_results(project, 200, first=4, last=5)
        until(lambda: receipts(project) == 1000, "all receipts")
        for process in (first, second):
            _end(process)
    assert one(project, "SELECT count(*) FROM assay.outbox_buckets WHERE owner IS NOT NULL") == 0
    check_history(project, read_all(broker.bootstrap, topic, known_events(project)))


def test_an_event_too_large_waits_alone_until_it_is_parked(
    project: Project, broker: BrokerUnderTest, topic: str
) -> None:
    tell_results(project, 5, last=2)
    with psycopg.connect(project.database_url, autocommit=True) as db:
        db.execute(
            "UPDATE assay.outbox_events SET payload = payload || jsonb_build_object('label', "
            "(SELECT jsonb_object_agg(n, md5(n::text)) FROM generate_series(1, 60000) n)) "
            "WHERE aggregate_id = 'line/r3' AND revision = 1"
        )
    ended = project.finished(*to_topic(broker, topic, "--once"))
    assert ended.returncode == 1
    assert "The sink refuses 1 event; see `assay publish --list-blocked`." in ended.stderr
    assert receipts(project) == 8
    assert "message_too_large" in project.done("publish", "--list-blocked")
    assert "1 refused" in project.done("status") or receipts(project) == 8
    event_id = str(one(project, "SELECT event_id FROM assay.outbox_failures"))
    assert "--reason" in project.finished("publish", "--park", event_id).stderr
    project.done("publish", "--park", event_id, "--reason", "sent by mail", "--by", "somebody")
    project.done(*to_topic(broker, topic, "--once"))
    got = read_all(broker.bootstrap, topic, set())
    assert Counter(each.aggregate for each in got)["line/r3"] == 1
    assert receipts(project) == 9
    assert one(project, "SELECT count(*) FROM assay.outbox_events") == 0


def test_dead_letters_are_told_without_labels(
    project: Project, broker: BrokerUnderTest, new_topic: Callable[[int], str]
) -> None:
    topic, dead = new_topic(PARTITIONS), new_topic(1)
    tell_results(project, 3)
    with psycopg.connect(project.database_url, autocommit=True) as db:
        db.execute(
            "UPDATE assay.outbox_events SET kind = 'quarantined', payload = payload || "
            '\'{"state": "quarantined", "error_code": "empty", "label": {"category": "planted"}}\' '
            "WHERE aggregate_id = 'line/r2'"
        )
    project.done(*to_topic(broker, topic, "--once", "--dlq-topic", dead))
    assert len(read_all(broker.bootstrap, topic, known_events(project))) == 3
    (letter,) = read_all(broker.bootstrap, dead, set(), partitions=1)
    assert (letter.key, letter.body["kind"], letter.body["data"]["error_code"]) == (
        "r2", "quarantined", "empty"
    )  # fmt: skip
    assert "planted" not in str(letter.body)


def test_a_signal_ends_a_publisher_with_its_receipts(
    project: Project, broker: BrokerUnderTest, topic: str
) -> None:
    tell_results(project, 400, last=5)
    with project.started(*to_topic(broker, topic, "--batch", "100")) as publisher:
        until(lambda: receipts(project) > 0, "the first receipts")
        _end(publisher)
    sent = read_all(broker.bootstrap, topic, set())
    assert receipts(project) == len(sent)
    assert one(project, "SELECT count(*) FROM assay.outbox_publishers") == 0


def test_a_broker_that_is_killed_and_comes_back_gets_the_rest(
    project: Project, own_broker: BrokerUnderTest
) -> None:
    """The embedded broker forgets its topics with all else: they are made again."""
    topic = make_topic(own_broker.bootstrap, PARTITIONS)
    tell_results(project, 50, last=2)
    with project.started(*to_topic(own_broker, topic, "--batch", "20")) as publisher:
        until(lambda: receipts(project) == 100, "the first receipts")
        own_broker.kill()
        tell_results(project, 50, first=3, last=4)
        own_broker.restart()
        until(lambda: receipts(project) == 200, "all receipts")
        _end(publisher)
    with psycopg.connect(project.database_url) as db:
        later = {
            row[0] for row in db.execute("SELECT event_id FROM assay.outbox_receipts WHERE revision > 2")
        }
    expected = later if own_broker.kind == "embedded" else known_events(project)
    partitions = 4 if own_broker.kind == "embedded" else PARTITIONS
    got = read_all(own_broker.bootstrap, topic, expected, partitions)
    if own_broker.kind == "apache":
        check_history(project, got)


_SHARES = (
    "SELECT array_agg(held ORDER BY held)::text FROM "
    "(SELECT count(*) AS held FROM assay.outbox_buckets WHERE owner IS NOT NULL GROUP BY owner) AS shares"
)


def _end(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0


def _end_leases(project: Project, of_pid: int | None = None) -> None:
    """What time does to the leases of a publisher that is dead or stopped."""
    whose = "true" if of_pid is None else f"split_part({{}}, ':', 2) = '{of_pid}'"
    with psycopg.connect(project.database_url, autocommit=True) as db:
        for table, column in (("outbox_buckets", "owner"), ("outbox_publishers", "publisher")):
            where = whose.format(column)
            statement = (
                f"UPDATE assay.{table} SET lease_until = '-infinity' WHERE {column} IS NOT NULL AND {where}"
            )
            db.execute(statement.encode())
