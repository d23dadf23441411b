"""What only Apache Kafka has: partitions shared by the broker (KIP-848), static members, expired records."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from kafka.brokers import BrokerUnderTest
from kafka.produced import Sent, tickets, with_malformed
from kafka.stage import LEASE, stage

NewTopic = Callable[[int], str]
SHARED = ("--group-protocol", "consumer")


async def test_the_broker_shares_the_partitions(
    tmp_path: Path, db_url: str, broker: BrokerUnderTest, new_topic: NewTopic
) -> None:
    """Members come, go and are killed and stopped under KIP-848 as well."""
    async with stage(tmp_path, db_url, broker, new_topic(4), 4) as run:
        with run.working(*SHARED) as one:
            await run.send(with_malformed(tickets(100), 20))
            with run.working(*SHARED) as other:
                await run.both_at_work(one, other)
                await run.vendor.change({"latency": 0.3})
                await run.send(with_malformed(tickets(200, 1000), 20))
                await run.until(lambda: run.held_by(other) > 2, "it holds tasks", one, other)
                other.process.kill()
                with run.working(*SHARED) as sleeper:
                    await run.both_at_work(one, sleeper)
                    sleeper.send(signal.SIGSTOP)
                    await run.send(tickets(100, 2000))
                    await run.until(run.drained, "the first has it all", one)
                    sleeper.send(signal.SIGCONT)
                    await run.until(
                        lambda: sleeper.events("partition_lost") > 0, "it has lost them", one, sleeper
                    )
                    await run.send(tickets(100, 3000))
                    await run.finish(one, sleeper)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_static_member_comes_back_to_its_partitions(
    protocol: str, tmp_path: Path, db_url: str, broker: BrokerUnderTest, new_topic: NewTopic
) -> None:
    """A restart moves nothing: the other member keeps what it has, and nothing else."""

    def member(name: str) -> tuple[str, ...]:
        return ("--group-protocol", protocol, "--instance-id", name, "--session", "30")

    async with stage(tmp_path, db_url, broker, new_topic(4), 4) as run:
        with run.working(*member("one")) as one:
            with run.working(*member("two")) as two:
                await run.both_at_work(one, two)
                await run.send(with_malformed(tickets(100), 20))
                await run.until(run.drained, "the first part", one, two)
                await two.stop()
            moved = one.events("partition_assigned"), one.events("partition_revoked")
            with run.working(*member("two")) as two:
                await run.both_at_work(one, two)
                await run.send(tickets(100, 1000))
                await run.until(run.drained, "the second part", one, two)
                assert (one.events("partition_assigned"), one.events("partition_revoked")) == moved
                await run.finish(one, two)


async def test_two_members_of_one_name(
    tmp_path: Path, db_url: str, broker: BrokerUnderTest, new_topic: NewTopic
) -> None:
    """One of them ends with one clear sentence, the other goes on."""
    async with stage(tmp_path, db_url, broker, new_topic(2), 2) as run:
        with run.working("--instance-id", "same") as one:
            await run.send(tickets(40))
            await run.until(run.drained, "the first part", one)
            with run.working("--instance-id", "same") as other:
                code = await one.ended(within=20)
                assert code == 2, one.said()[-2000:]
                assert "Another member has this --instance-id" in one.said()
                await run.send(tickets(40, 1000))
                await run.finish(other)


@pytest.mark.parametrize("assignor", ["cooperative-sticky", "range"])
async def test_what_the_broker_has_dropped_is_told(
    assignor: str, tmp_path: Path, db_url: str, broker: BrokerUnderTest, new_topic: NewTopic
) -> None:
    """Retention passes a worker that is away, and one that is stopped: both go on after it, and say so."""
    topic = new_topic(2)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    settled: list[Sent] = []

    def drop_before(offset: int) -> None:
        place = TopicPartition(topic, 0, offset)
        admin.delete_records([place])[TopicPartition(topic, 0)].result(30)
        gone = [sent for sent in run.feed.sent if sent.place < (0, offset) and sent not in settled]
        assert gone
        run.feed.sent[:] = [sent for sent in run.feed.sent if sent not in gone]

    async with stage(tmp_path, db_url, broker, topic, 2) as run:
        with run.working("--assignor", assignor) as worker:
            for partition in (0, 1):
                await run.send(tickets(20, 100 * partition), partition=partition)
            await run.until(run.drained, "the first part", worker)
            settled += run.feed.sent
            await worker.stop()
        await run.send(tickets(30, 1000), partition=0)
        await asyncio.to_thread(drop_before, 35)
        with run.working("--assignor", assignor) as worker:
            await run.until(run.drained, "the second part", worker)
            assert worker.events("records_expired") == 1
            settled += run.feed.sent
            worker.send(signal.SIGSTOP)
            await run.send(tickets(30, 2000), partition=0)
            await run.send(tickets(30, 3000), partition=1)
            await asyncio.to_thread(drop_before, 65)
            worker.send(signal.SIGCONT)
            await run.until(lambda: worker.events("records_expired") == 2, "it is told", worker)
            await run.send(tickets(10, 4000), partition=0)
            await run.finish(worker)


async def test_takes_over_within_lease_and_poll(
    tmp_path: Path, db_url: str, broker: BrokerUnderTest, new_topic: NewTopic
) -> None:
    """From the kill of a worker until its tasks are somebody else's."""
    async with stage(tmp_path, db_url, broker, new_topic(2), 2, latency=1.0) as run:
        with run.working(concurrency=64) as one, run.working() as other:
            await run.both_at_work(one, other)
            await run.send(tickets(60))
            await run.until(lambda: run.held_by(other) > 4, "it holds tasks", one, other)
            other.process.kill()
            late = run.seconds_pass(2 * LEASE + 4)
            await run.until(lambda: run.held_by(other) == 0, "taken over", one)
            assert not late()
            await run.vendor.change({"latency": 0.05})
            await run.finish(one)
