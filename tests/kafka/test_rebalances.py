"""Members come and go while work goes on."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from kafka.brokers import BrokerUnderTest
from kafka.produced import tickets, with_malformed
from kafka.stage import LEASE, SESSION, Stage, Worker, stage

NewTopic = Callable[[int], str]
PARTITIONS = 6


async def test_two_then_four_and_one_killed(
    tmp_path: Path, db_url: str, broker: BrokerUnderTest, new_topic: NewTopic
) -> None:
    """Added workers get their share without a restart of the others; a killed one's share is taken over."""
    async with stage(tmp_path, db_url, broker, new_topic(PARTITIONS), PARTITIONS) as run:
        with ExitStack() as stack:
            workers = [stack.enter_context(run.working()) for _ in range(2)]
            await run.send(tickets(120))
            await run.both_at_work(*workers)
            workers += [stack.enter_context(run.working()) for _ in range(2)]
            await run.both_at_work(*workers)
            await run.vendor.change({"latency": 0.5})
            await run.send(with_malformed(tickets(240, 1000), 20))
            victim = workers.pop()
            await run.until(lambda: run.held_by(victim) > 2, "it holds tasks", *workers)
            victim.process.kill()
            within = run.seconds_pass(SESSION + LEASE + 20)
            await run.until(lambda: run.held_by(victim) == 0, "what it held is taken over", *workers)
            assert not within(), "a killed worker's tasks are taken over soon after its lease"
            await run.finish(*workers)
        shares = run.project.rows(
            "SELECT count(DISTINCT last_actor) FROM assay.annotation_tasks WHERE state <> 'superseded'"
        )
        assert shares[0][0] >= 3


def has_a_share(worker: Worker) -> bool:
    return worker.events("partition_assigned") > 0


async def cycle(run: Stage, stack: ExitStack, seconds: float, chance: random.Random) -> None:
    """For so long: members join, and leave well, killed or terminated in the middle of a rebalance."""
    over = run.seconds_pass(seconds)
    members: list[Worker] = []
    number = 0
    while not over():
        await run.send(with_malformed(tickets(40, 1000 + 40 * number), 20))
        number += 1
        if len(members) < 2 or (len(members) < 4 and chance.random() < 0.5):
            members.append(stack.enter_context(run.working()))
            joined = members[-1]
            if chance.random() < 0.7:
                await run.until(partial(has_a_share, joined), "a share", joined)
            continue
        leaving = members.pop(chance.randrange(len(members)))
        if chance.random() < 0.4:
            leaving.process.kill()
            await leaving.ended()
        elif leaving.events("run_started"):
            await leaving.stop()
    for member in members:
        member.send(signal.SIGKILL)


async def storm(run: Stage, seconds: float) -> None:
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    with ExitStack() as stack, run.working() as steady:
        await run.send(tickets(100))
        await cycle(run, stack, seconds, random.Random(seed))
        await run.finish(steady)


async def test_a_short_storm(
    tmp_path: Path, db_url: str, broker: BrokerUnderTest, new_topic: NewTopic
) -> None:
    async with stage(tmp_path, db_url, broker, new_topic(PARTITIONS), PARTITIONS) as run:
        await storm(run, 12)


@pytest.mark.scale
async def test_a_minute_of_storm(
    tmp_path: Path, db_url: str, broker: BrokerUnderTest, new_topic: NewTopic
) -> None:
    async with stage(tmp_path, db_url, broker, new_topic(PARTITIONS), PARTITIONS) as run:
        await storm(run, 60)
