"""What people do about a topic while it is read: pause low priority, mend what was no record."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafka.brokers import BrokerUnderTest
from kafka.topic_runs import (
    Message,
    as_messages,
    committed,
    produce,
    settled,
    tickets_of,
    until,
    work_tickets,
    working,
)
from labelling_project import Project
from practice_runs import practising, ticket_project

TICKETS = 60
MAPPED = ("--map", "priority=priority")


@pytest.fixture
def project(tmp_path: Path, db_url: str) -> Project:
    return ticket_project(tmp_path, db_url, TICKETS)


def end(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0


def half_low(project: Project) -> list[Message]:
    records: list[dict[str, Any]] = [
        {**ticket, "priority": "low" if number % 2 else "normal", "source": "crm"}
        for number, ticket in enumerate(tickets_of(project))
    ]
    return as_messages(records)


async def test_low_priority_is_paused_and_resumed_under_workers_that_run(
    project: Project, broker: BrokerUnderTest, new_topic: Callable[[int], str]
) -> None:
    topic = new_topic(2)
    messages = half_low(project)
    async with practising(project) as vendor:
        command = work_tickets(broker, topic, vendor.base_url, "--group", topic, *MAPPED)
        with working(project, *command) as one, working(project, *command) as two:
            await asyncio.to_thread(produce, broker.bootstrap, topic, messages[:20])
            await asyncio.to_thread(until, lambda: settled(project) == 20, "20 settled", one, two)
            await _act(project, "pause-low")
            # Both look at least once a second.
            await asyncio.to_thread(
                until, lambda: _seen(project, "low_priority_paused") == 2, "seen", one, two
            )
            await asyncio.to_thread(produce, broker.bootstrap, topic, messages[20:])
            held = "SELECT count(*) FROM assay.annotation_tasks WHERE last_reason = 'low_priority_paused'"
            await asyncio.to_thread(
                until, lambda: (settled(project), project.one(held)) == (40, 20), "low ones held", one, two
            )
            # Nothing is held back: offsets of what waits are committed.
            await asyncio.to_thread(
                until, lambda: sum(committed(broker.bootstrap, topic, topic, 2).values()) == TICKETS,
                "all committed", one, two,
            )  # fmt: skip
            assert project.one("SELECT max(attempts) FROM assay.annotation_tasks "
                               "WHERE state = 'retry_scheduled'") == 0  # fmt: skip
            await _act(project, "resume-low")
            await asyncio.to_thread(until, lambda: settled(project) == TICKETS, "all settled", one, two)
            for worker in (one, two):
                await asyncio.to_thread(end, worker)
        assert vendor.stats().calls == TICKETS
    assert project.one("SELECT max(attempts) FROM assay.annotation_tasks") == 1
    assert project.rows("SELECT DISTINCT source_name FROM assay.inputs") == [("crm",)]
    assert project.one("SELECT max(abs(extract(epoch FROM first_seen_at - source_timestamp))) < 60 "
                       "FROM assay.inputs") is True  # fmt: skip
    assert "its record names the source crm" in project.done("explain", str(messages[0][0]))
    assert project.broken() == []


async def _act(project: Project, act: str) -> None:
    await asyncio.to_thread(lambda: project.done("pipeline", act, "tickets", "--reason", "the queue is long"))


def _seen(project: Project, event: str) -> int:
    return sum(event in log.read_text() for log in project.folder.glob("worker-*.log"))


async def test_a_topic_that_turns_invalid_stops_its_worker_with_one_sentence(
    project: Project, broker: BrokerUnderTest, new_topic: Callable[[int], str]
) -> None:
    topic = new_topic(1)
    good = as_messages(tickets_of(project)[:30])
    bad: list[Message] = [("k", json.dumps({"record_id": f"b{n}", "body": "x"}).encode()) for n in range(400)]
    async with practising(project) as vendor:
        with working(project, *work_tickets(broker, topic, vendor.base_url, "--group", topic)) as worker:
            await asyncio.to_thread(produce, broker.bootstrap, topic, good)
            await asyncio.to_thread(until, lambda: settled(project) == 30, "good ones settled", worker)
            await asyncio.to_thread(produce, broker.bootstrap, topic, bad)
            assert await asyncio.to_thread(worker.wait, 60) == 1
        said = "".join(log.read_text() for log in project.folder.glob("worker-*.log"))
        assert f"records of {topic} are malformed (missing_field: " in said
        assert "nothing is lost" in said
        isolated = int(project.one("SELECT count(*) FROM assay.isolated_records"))
        assert isolated > 50
        # What was isolated is mended where it lies, before and while the rest is read: nobody sends it again.
        replay = ("isolated", "replay", "--pipeline", "tickets.py", "--reason", "renamed upstream", "--run",
                  "--map", "text=body")  # fmt: skip
        told = await asyncio.to_thread(lambda: project.done(*replay))
        assert told.startswith(f"{isolated} records for tickets")
        lenient = work_tickets(broker, topic, vendor.base_url, "--group", topic, "--max-invalid", "1")
        with working(project, *lenient) as worker:
            found = "SELECT count(*) FROM assay.isolated_records"
            await asyncio.to_thread(until, lambda: project.one(found) == 400, "all isolated", worker)
            await asyncio.to_thread(lambda: project.done(*replay))
            await asyncio.to_thread(until, lambda: settled(project) == 430, "all settled", worker)
            await asyncio.to_thread(end, worker)
    assert project.one("SELECT count(*) FROM assay.isolated_records WHERE state = 'open'") == 0
    assert committed(broker.bootstrap, topic, topic, 1) == {0: 430}
    assert project.broken() == []
