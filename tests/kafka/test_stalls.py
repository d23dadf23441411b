"""Workers that stand still, vendors that are slow, partitions that are stuck."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafka.brokers import BrokerUnderTest
from kafka.produced import tickets, with_malformed
from kafka.stage import LEASE, NO_MISTAKES, SESSION, Stage, Worker, memory_of, stage
from kafka.topic_runs import committed

NewTopic = Callable[[int], str]


async def test_stopped_beyond_lease_and_session(
    tmp_path: Path, db_url: str, broker: BrokerUnderTest, new_topic: NewTopic
) -> None:
    """Another worker has everything by the time it is continued; what it then believes to hold is not its."""
    async with stage(tmp_path, db_url, broker, new_topic(4), 4, latency=0.2) as run:
        with run.working() as sleeper, run.working() as other:
            await run.send(with_malformed(tickets(300), 30))
            await run.both_at_work(sleeper, other)
            await run.until(lambda: run.held_by(sleeper) > 4, "it holds tasks", sleeper, other)
            sleeper.send(signal.SIGSTOP)
            await run.until(run.drained, "the other has it all", other)
            sleeper.send(signal.SIGCONT)
            await run.send(tickets(100, 1000))
            await run.until(
                lambda: sleeper.events("partition_lost") > 0, "it has lost its partitions", sleeper
            )
            await run.finish(sleeper, other)
    assert run.project.one("SELECT count(*) FROM assay.task_history WHERE move = 'take_over'") > 0


@pytest.mark.scale
async def test_terminated_while_stopped(
    tmp_path: Path, db_url: str, broker: BrokerUnderTest, new_topic: NewTopic
) -> None:
    """SIGTERM comes to a worker whose session has ended: it ends well, and commits nothing of others."""
    async with stage(tmp_path, db_url, broker, new_topic(2), 2, latency=0.2) as run:
        with run.working() as sleeper:
            await run.send(tickets(120))
            await run.until(lambda: run.held_by(sleeper) > 4, "it holds tasks", sleeper)
            sleeper.send(signal.SIGSTOP)
            with run.working() as other:
                await run.until(run.drained, "the other has it all", other)
                sleeper.send(signal.SIGTERM)
                sleeper.send(signal.SIGCONT)
                assert await sleeper.ended() == 0, sleeper.said()[-2000:]
                await run.send(tickets(20, 1000))
                await run.finish(other)


async def test_calls_longer_than_session_and_lease(
    tmp_path: Path, db_url: str, broker: BrokerUnderTest, new_topic: NewTopic
) -> None:
    """Calls outlast the session and several leases: no partition moves, nothing is called twice."""
    latency = max(SESSION, 2 * LEASE) + 1
    async with stage(
        tmp_path, db_url, broker, new_topic(2), 2, latency=latency, spread=0.0, mistakes=NO_MISTAKES
    ) as run:
        with run.working() as worker:
            await run.send(tickets(8))
            await run.finish(worker)
        assert worker.events("partition_revoked") == 2  # at its end
        assert worker.events("partition_lost") == 0
        assert run.vendor.stats().calls == 8
    assert run.project.one("SELECT count(*) FROM assay.task_history WHERE move = 'take_over'") == 0


async def test_terminated_while_calls_are_long(
    tmp_path: Path, db_url: str, broker: BrokerUnderTest, new_topic: NewTopic
) -> None:
    """Calls that outlast the drain are cut off and parked; the next worker takes them from PostgreSQL."""
    async with stage(
        tmp_path, db_url, broker, new_topic(2), 2, latency=20.0, spread=0.0, mistakes=NO_MISTAKES
    ) as run:
        with run.working("--drain", "1") as worker:
            await run.send(tickets(8))
            await run.vendor.until(lambda stats: stats.in_flight == 8)
            await worker.stop(within=20)
        assert run.project.states() == {"retry_scheduled": 8}
        await run.vendor.change({"latency": 0.05})
        with run.working() as worker:
            await run.send(tickets(8, 100))
            await run.finish(worker)


@contextmanager
def holding(run: Stage, record: str) -> Iterator[Worker]:
    """Another run holds one record, for as long as its call takes."""
    run.project.write_records("held.jsonl", [{"id": record, "text": tickets(1)[0]["text"]}])
    arguments = ("run", "tickets.py", "--input", "held.jsonl", "--base-url", run.vendor.base_url, "--lease",
                 str(LEASE), "--quiet")  # fmt: skip
    with run.running(*arguments) as worker:
        yield worker


async def test_a_stuck_partition_holds_back_only_itself(
    tmp_path: Path, db_url: str, broker: BrokerUnderTest, new_topic: NewTopic
) -> None:
    topic = new_topic(2)
    async with stage(
        tmp_path, db_url, broker, topic, 2, latency=18.0, spread=0.0, mistakes=NO_MISTAKES
    ) as run:
        with holding(run, tickets(1)[0]["record_id"]) as other:
            await run.vendor.until(lambda stats: stats.in_flight == 1)
            await run.vendor.change({"latency": 0.02})
            with run.working() as worker:
                await run.send(tickets(60), partition=0)
                await run.send(tickets(60, 100), partition=1)
                await run.until(lambda: run.settled() == 119, "all but one", worker, other)

                def offsets() -> dict[int, int]:
                    return committed(broker.bootstrap, run.group, topic, 2)

                await run.until(lambda: offsets().get(1) == 60, "the other partition", worker, other)
                assert offsets().get(0, 0) == 0
                # The held one is settled by whoever holds it; then the whole partition is committed at once.
                await run.finish(worker)
    assert run.project.one("SELECT max(attempts) FROM assay.annotation_tasks") == 1


@pytest.mark.scale
async def test_full_slots_bound_memory_and_keep_the_membership(
    tmp_path: Path, db_url: str, broker: BrokerUnderTest, new_topic: NewTopic
) -> None:
    """60 MB of texts wait while the vendor hangs: the worker reads some of them, and stays a member."""
    async with stage(
        tmp_path, db_url, broker, new_topic(2), 2, latency=60.0, spread=0.0, mistakes=NO_MISTAKES
    ) as run:
        with run.working("--memory", "4", concurrency=4) as worker:
            await run.send(tickets(4))
            await run.vendor.until(lambda stats: stats.in_flight == 4)
            before = memory_of(worker.process.pid)
            large = [
                {**each, "text": each["text"] * (40_000 // len(each["text"]))} for each in tickets(1500, 100)
            ]
            await run.send(large)
            # Past the session: whoever is no longer a member commits nothing, and gets nothing.
            beyond = run.seconds_pass(SESSION + 2)
            await run.until(beyond, "more than a session", worker)
            grown = memory_of(worker.process.pid) - before
            assert worker.events("partition_lost") == worker.events("partition_revoked") == 0
            # 16 MiB lie with the client, 16 between it and the worker, as bytes and as texts. All of it read
            # would be twice its size.
            size = sum(len(each["text"]) for each in large) / 1024**2
            assert grown < 64 < 1.5 * size, f"{grown} MiB more, of {size} MiB"
            await run.vendor.change({"latency": 0.0})
            await worker.stop(within=30)
        with run.working(concurrency=32) as worker:
            await run.finish(worker)
