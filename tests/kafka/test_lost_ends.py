"""The broker loses the end of a log under the same topic: an unclean election, a disk that was replaced."""

from __future__ import annotations

import asyncio
import shutil
import signal
from pathlib import Path

import pytest

from kafka.apache_kafka import ApacheKafka
from kafka.brokers import BrokerUnderTest, make_topic
from kafka.produced import tickets
from kafka.stage import Stage, stage

SAYS = "the broker has lost messages"


async def lose(run: Stage, partition: int, *, messages: int) -> None:
    """Kill the broker, empty the log of a partition, start it again, and send so many new messages to it."""
    broker = run.broker
    assert isinstance(broker, ApacheKafka)

    def empty() -> None:
        broker.kill()
        shutil.rmtree(broker.data / f"{run.topic}-{partition}")
        broker.restart()

    await asyncio.to_thread(empty)
    run.feed.sent[:] = [sent for sent in run.feed.sent if sent.place[0] != partition]
    await run.send(tickets(messages, 5000), partition=partition)


async def read_by_another_group(run: Stage, count: int) -> None:
    """What the message says helps: nothing that the broker has is left out."""
    run.group += "-again"
    with run.working() as worker:
        await run.until(
            lambda: int(run.project.one("SELECT count(*) FROM assay.inputs")) == count, "all records", worker
        )
        await run.until(lambda: run.settled() == count, "all settled", worker)
        await worker.stop()
    assert run.project.broken() == []


@pytest.mark.parametrize("messages", [10, 60])
async def test_a_worker_that_starts_again(
    messages: int, tmp_path: Path, db_url: str, own_broker: BrokerUnderTest
) -> None:
    """The log ends before the place where the group stood, or has grown beyond it again."""
    (tmp_path / "project").mkdir()
    topic = make_topic(own_broker.bootstrap, 2)
    async with stage(tmp_path / "project", db_url, own_broker, topic, 2) as run:
        with run.working() as worker:
            for partition in (0, 1):
                await run.send(tickets(30, 100 * partition), partition=partition)
            await run.until(run.drained, "the first part", worker)
            await worker.stop()
        await lose(run, 0, messages=messages)
        with run.working() as worker:
            assert await worker.ended() == 1, worker.said()[-2000:]
            assert worker.events(SAYS) == 1
        await read_by_another_group(run, 60 + messages)


async def test_a_worker_that_goes_on(tmp_path: Path, db_url: str, own_broker: BrokerUnderTest) -> None:
    (tmp_path / "project").mkdir()
    topic = make_topic(own_broker.bootstrap, 2)
    async with stage(tmp_path / "project", db_url, own_broker, topic, 2) as run:
        with run.working() as worker:
            for partition in (0, 1):
                await run.send(tickets(30, 100 * partition), partition=partition)
            await run.until(run.drained, "the first part", worker)
            await lose(run, 0, messages=10)
            assert await worker.ended() == 1, worker.said()[-2000:]
            assert worker.events(SAYS) == 1
        await read_by_another_group(run, 70)


async def test_a_log_that_has_grown_again(tmp_path: Path, db_url: str, own_broker: BrokerUnderTest) -> None:
    """By the time the worker looks, there is something at the offset where it stood."""
    (tmp_path / "project").mkdir()
    topic = make_topic(own_broker.bootstrap, 2)
    async with stage(tmp_path / "project", db_url, own_broker, topic, 2) as run:
        with run.working() as worker:
            for partition in (0, 1):
                await run.send(tickets(30, 100 * partition), partition=partition)
            await run.until(run.drained, "the first part", worker)
            worker.send(signal.SIGSTOP)
            await lose(run, 0, messages=60)
            worker.send(signal.SIGCONT)
            assert await worker.ended() == 1, worker.said()[-2000:]
            assert worker.events(SAYS) == 1
        await read_by_another_group(run, 120)
