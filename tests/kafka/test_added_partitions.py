"""Partitions that are added to a topic while it is read, or while nobody reads it. Apache Kafka alone can."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from kafka.brokers import BrokerUnderTest
from kafka.produced import tickets, with_malformed
from kafka.stage import Stage, stage

NewTopic = Callable[[int], str]
FROM_END = ("--start", "latest")


async def add_partitions(run: Stage, partitions: int) -> None:
    """The topic has so many from now on, each with a leader; the checks know of it."""

    def add() -> None:
        admin = AdminClient({"bootstrap.servers": run.broker.bootstrap})
        admin.create_partitions([NewPartitions(run.topic, partitions)])[run.topic].result(30)
        found = 0
        while found < partitions:
            parts = admin.list_topics(run.topic, timeout=20).topics[run.topic].partitions
            found = sum(part.leader >= 0 and part.error is None for part in parts.values())

    await asyncio.to_thread(add)
    run.partitions = partitions


async def begun_at_the_end(run: Stage) -> None:
    """What was there before the group is left out."""
    await run.send(tickets(10), partition=0)
    run.feed.sent.clear()


def records(run: Stage, partition: int = -1) -> int:
    """Records of one partition, or of all."""
    return int(run.project.one(
        "SELECT count(*) FROM assay.inputs WHERE %s IN (-1, partition_no)", partition
    ))  # fmt: skip


async def test_messages_come_before_the_worker_sees_the_partition(
    tmp_path: Path, db_url: str, broker: BrokerUnderTest, new_topic: NewTopic
) -> None:
    """`--start latest` is about what was there before the group: a later partition is read whole."""
    async with stage(tmp_path, db_url, broker, new_topic(1), 1) as run:
        await begun_at_the_end(run)
        with run.working(*FROM_END) as worker:
            await run.both_at_work(worker)
            await run.send(tickets(10, 100), partition=0)
            await run.until(run.drained, "the first partition", worker)
            await add_partitions(run, 3)
            # At once: the worker looks every ten seconds for new ones.
            for partition in (1, 2):
                await run.send(with_malformed(tickets(20, 1000 * partition), 10), partition=partition)
            assert worker.events("partition_assigned") == 1
            await run.finish(worker)
        assert worker.said().count('"reason": "begin"') == 2, worker.said()[-3000:]
        assert records(run) == 50


@pytest.mark.parametrize("database_knows", [True, False])
async def test_partitions_come_while_nobody_reads(
    tmp_path: Path, db_url: str, broker: BrokerUnderTest, new_topic: NewTopic, *, database_knows: bool
) -> None:
    """The next worker finds a group that has begun: by the word of PostgreSQL, or of the broker."""
    async with stage(tmp_path, db_url, broker, new_topic(1), 1) as run:
        await begun_at_the_end(run)
        with run.working(*FROM_END) as worker:
            await run.both_at_work(worker)
            await run.send(tickets(10, 100), partition=0)
            await run.until(run.drained, "the first partition", worker)
            await worker.stop()
        await add_partitions(run, 2)
        await run.send(tickets(20, 1000), partition=1)
        if not database_knows:
            # As after a restore of an older database. All of the first partition is read again.
            run.project.rows("DELETE FROM assay.source_checkpoints RETURNING 1")
            run.watch.broker_counts = False
        with run.working(*FROM_END) as worker, run.working(*FROM_END) as other:
            await run.until(lambda: records(run, 1) == 20, "what lies in the new one", worker, other)
            if database_knows:
                await run.finish(worker, other)


async def test_the_end_counts_for_all_partitions_of_a_new_group(
    tmp_path: Path, db_url: str, broker: BrokerUnderTest, new_topic: NewTopic
) -> None:
    """Control: members that start together leave out what was there, in every partition that was."""
    async with stage(tmp_path, db_url, broker, new_topic(4), 4) as run:
        for partition in range(4):
            await run.send(tickets(10, 100 * partition), partition=partition)
        run.feed.sent.clear()
        with run.working(*FROM_END) as one, run.working(*FROM_END) as other:
            await run.both_at_work(one, other)
            for partition in range(4):
                await run.send(tickets(5, 1000 + 100 * partition), partition=partition)
            await run.finish(one, other)
        assert records(run) == 20
