"""A topic labelled by `assay work`: every message has its destination, and offsets follow."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

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

TICKETS = 120
PARTITIONS = 3
GROUP = "assay-tickets"


@pytest.fixture
def project(tmp_path: Path, db_url: str) -> Project:
    return ticket_project(tmp_path, db_url, TICKETS)


def end(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0


async def test_every_message_is_labelled_and_committed(
    project: Project, broker: BrokerUnderTest, new_topic: Callable[[int], str]
) -> None:
    topic = new_topic(PARTITIONS)
    messages = as_messages(tickets_of(project))
    async with practising(project) as vendor:
        with working(project, *work_tickets(broker, topic, vendor.base_url)) as worker:
            await asyncio.to_thread(produce, broker.bootstrap, topic, messages[:50])
            await asyncio.to_thread(until, lambda: settled(project) == 50, "50 settled", worker)
            await asyncio.to_thread(produce, broker.bootstrap, topic, messages[50:])
            await asyncio.to_thread(until, lambda: settled(project) == TICKETS, "all settled", worker)
            await asyncio.to_thread(end, worker)
        assert vendor.stats().calls == TICKETS
        # A second worker finds nothing to do: what is committed is not read again.
        with working(project, *work_tickets(broker, topic, vendor.base_url)) as worker:
            more = as_messages([{"record_id": "one-more", "text": tickets_of(project)[0]["text"]}])
            await asyncio.to_thread(produce, broker.bootstrap, topic, more)
            await asyncio.to_thread(until, lambda: settled(project) == TICKETS + 1, "one more", worker)
            await asyncio.to_thread(end, worker)
        assert vendor.stats().calls == TICKETS + 1
    assert sum(committed(broker.bootstrap, GROUP, topic, PARTITIONS).values()) == TICKETS + 1
    assert project.one("SELECT sum(committed_offset) FROM assay.source_checkpoints") == TICKETS + 1
    assert project.one("SELECT count(*) FROM assay.source_duplicates") == 0
    assert project.broken() == []


async def test_what_is_no_record_is_isolated_with_its_bytes(
    project: Project, broker: BrokerUnderTest, new_topic: Callable[[int], str]
) -> None:
    topic = new_topic(1)
    good = as_messages(tickets_of(project)[:20])
    record = tickets_of(project)[30]
    bad: list[Message] = [
        ("k", b"\xff\xfe"), ("k", b"no json"), ("k", b"[1]"), ("k", None),
        ("k", json.dumps({"text": "no id"}).encode()),
        ("k", json.dumps({"record_id": "blank", "text": " "}).encode()),
        ("k", json.dumps({"record_id": "v", "text": "x", "input_version": "2"}).encode()),
    ]  # fmt: skip
    other_content = [(good[0][0], json.dumps({"record_id": good[0][0], "text": record["text"]}).encode())]
    async with practising(project) as vendor:
        with working(project, *work_tickets(broker, topic, vendor.base_url)) as worker:
            await asyncio.to_thread(produce, broker.bootstrap, topic, [*good, *bad, *other_content])
            everything = len(good) + len(bad) + 1
            await asyncio.to_thread(
                until, lambda: committed(broker.bootstrap, GROUP, topic, 1) == {0: everything}, "all", worker
            )
            await asyncio.to_thread(end, worker)
    assert project.rows("SELECT error_type, path FROM assay.isolated_records ORDER BY source_offset") == [
        ("not_utf8", ""), ("not_json", ""), ("not_an_object", ""), ("tombstone", ""),
        ("missing_field", "/record_id"), ("blank_text", "/text"), ("bad_identity", "/input_version"),
        ("content_differs", ""),
    ]  # fmt: skip
    assert settled(project) == len(good)
    assert project.broken() == []


async def test_headers_tell_what_the_record_does_not(
    project: Project, broker: BrokerUnderTest, new_topic: Callable[[int], str]
) -> None:
    topic = new_topic(1)
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    own = "00-11111111111111111111111111111111-2222222222222222-01"
    ticket = tickets_of(project)[0]
    async with practising(project) as vendor:
        with working(project, *work_tickets(broker, topic, vendor.base_url)) as worker:
            plain, with_own = {**ticket, "record_id": "a"}, {**ticket, "record_id": "b", "trace_parent": own}
            both = {"traceparent": trace.encode(), "correlation-id": b"c-1", "other": b"\xff"}
            await asyncio.to_thread(
                produce, broker.bootstrap, topic, as_messages([plain, with_own]), headers=both
            )
            broken = {"traceparent": b"rubbish", "correlation-id": b"\xff"}
            third = as_messages([{**ticket, "record_id": "c"}])
            await asyncio.to_thread(produce, broker.bootstrap, topic, third, headers=broken)
            await asyncio.to_thread(until, lambda: settled(project) == 3, "three settled", worker)
            await asyncio.to_thread(end, worker)
    found = project.rows("SELECT record_id, trace_parent, correlation_id FROM assay.inputs ORDER BY 1")
    assert found == [("a", trace, "c-1"), ("b", own, "c-1"), ("c", None, None)]
