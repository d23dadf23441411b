"""SIGTERM in the middle of everything: out within the drain, in good order, and the others go on."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from kafka.brokers import BrokerUnderTest
from kafka.produced import tickets, with_malformed
from kafka.stage import Stage, Worker, stage

NewTopic = Callable[[int], str]
PARTITIONS = 6
# As `Stage.command` sets it; leaving the group and ending the process come on top.
DRAIN, LEAVE = 5.0, 10.0


async def ends_in_time(worker: Worker) -> float:
    """SIGTERM now; the seconds until it has ended well."""
    worker.send(signal.SIGTERM)
    began = time.monotonic()
    code = await worker.ended(within=60)
    seconds = time.monotonic() - began
    assert code == 0, worker.said()[-3000:]
    assert seconds < DRAIN + LEAVE, worker.said()[-3000:]
    return seconds


def tells(workers: Sequence[Worker], event: str, before: int = 0) -> bool:
    """Whether any of them tells of it once more."""
    return sum(worker.events(event) for worker in workers) > before


async def joined(run: Stage, stack: ExitStack) -> Worker:
    """Another member that has begun to join, no more."""
    worker = stack.enter_context(run.working())
    await run.until(partial(tells, [worker], "run_started"), "a start", worker)
    return worker


async def replaced(run: Stage, stack: ExitStack, members: list[Worker], moment: str) -> list[float]:
    """Two join, which makes the rest give up partitions; in the middle of that some are told to end: one new
    as it joins, an old one as the first partition is given up or is somebody's. How long the ends took."""
    before = sum(member.events(moment) for member in members)
    old = members.pop(0)
    new, later = await joined(run, stack), await joined(run, stack)
    if moment == "joining":
        members.append(later)
        return list(await asyncio.gather(ends_in_time(new), ends_in_time(old)))
    everybody = [old, *members, new, later]

    def happens() -> bool:
        """Or it is over: a rebalance that was going on takes those in that come, and nobody gives up more."""
        settled = all(tells([each], "partition_assigned") for each in (new, later))
        return settled or tells(everybody, moment, before)

    await run.until(happens, moment, *everybody)
    members += [new, later]
    took = [await ends_in_time(old)]
    if len(members) > 3:
        took.append(await ends_in_time(members.pop(0)))
    return took


async def storm(run: Stage, seconds: float) -> None:
    took: list[float] = []
    moments = ("partition_revoked", "joining", "partition_assigned")
    with ExitStack() as stack, run.working() as steady:
        await run.send(tickets(60))
        await run.both_at_work(steady)
        members = [await joined(run, stack)]
        await run.both_at_work(*members)
        over, number = run.seconds_pass(seconds), 0
        while not over() or number < len(moments):
            await run.send(with_malformed(tickets(60, 1000 + 60 * number), 20))
            took += await replaced(run, stack, members, moments[number % len(moments)])
            number += 1
        print(f"{len(took)} ended, the slowest in {max(took):.1f} s")
        await run.finish(steady, *members)


async def test_in_the_middle_of_rebalances(
    tmp_path: Path, db_url: str, broker: BrokerUnderTest, new_topic: NewTopic
) -> None:
    async with stage(tmp_path, db_url, broker, new_topic(PARTITIONS), PARTITIONS, latency=0.2) as run:
        await storm(run, 0)


@pytest.mark.scale
async def test_in_the_middle_of_a_minute_of_rebalances(
    tmp_path: Path, db_url: str, broker: BrokerUnderTest, new_topic: NewTopic
) -> None:
    async with stage(tmp_path, db_url, broker, new_topic(PARTITIONS), PARTITIONS, latency=0.2) as run:
        await storm(run, 60)


@pytest.mark.parametrize("latency", [0.05, 3.0])
async def test_in_the_middle_of_a_backlog(
    latency: float, tmp_path: Path, db_url: str, broker: BrokerUnderTest, new_topic: NewTopic
) -> None:
    """Calls shorter than the drain, and some that are cut off and parked. The other has the rest."""
    async with stage(
        tmp_path, db_url, broker, new_topic(PARTITIONS), PARTITIONS, latency=latency, spread=0.9
    ) as run:
        await run.send(with_malformed(tickets(1500), 50))
        with run.working() as one, run.working() as other:
            await run.both_at_work(one, other)
            await run.until(lambda: run.held_by(one) > 4 and run.held_by(other) > 4, "work", one, other)
            took = await ends_in_time(one)
            print(f"ended in {took:.1f} s")
            assert run.settled() < 1500
            assert run.held_by(one) == 0
            await run.vendor.change({"latency": 0.02})
            await ends_in_time(other)
        assert run.project.states().get("processing", 0) == 0
        with run.working(concurrency=32) as worker:
            await run.finish(worker)


async def test_told_twice_in_the_middle_of_a_backlog(
    tmp_path: Path, db_url: str, broker: BrokerUnderTest, new_topic: NewTopic
) -> None:
    """The second time it ends at once, with 130. What it held is taken over when its lease ends."""
    async with stage(tmp_path, db_url, broker, new_topic(PARTITIONS), PARTITIONS, latency=4.0) as run:
        await run.send(tickets(300))
        with run.working() as worker, run.working() as other:
            await run.until(lambda: run.held_by(worker) > 4, "work", worker, other)
            worker.send(signal.SIGTERM)
            await run.until(partial(tells, [worker], "drain_started"), "a drain", worker)
            worker.send(signal.SIGTERM)
            assert await worker.ended(within=10) == 130
            await run.vendor.change({"latency": 0.02})
            await run.finish(other)
