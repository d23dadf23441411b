"""A backlog is drained with flat memory; two versions of patience."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from kafka.brokers import BrokerUnderTest
from kafka.produced import tickets, with_malformed
from kafka.stage import NO_MISTAKES, memory_of, stage

NewTopic = Callable[[int], str]
# MiB. Allocators are noisy; the texts of half of the backlog, with all that is made for them, take more.
MORE = 24
PARTITIONS = 4


async def drain(
    count: int,
    folder: Path,
    db_url: str,
    broker: BrokerUnderTest,
    topic: str,
    *,
    workers: int,
    seconds: float,
) -> None:
    async with stage(folder, db_url, broker, topic, PARTITIONS, latency=0.0, mistakes=NO_MISTAKES) as run:
        await run.send(with_malformed(tickets(count), 50))
        with ExitStack() as stack:
            members = [stack.enter_context(run.working(concurrency=64)) for _ in range(workers)]
            began = time.monotonic()
            samples: list[tuple[int, list[float]]] = []

            def look() -> bool:
                done = run.settled()
                samples.append((done, [memory_of(each.process.pid) for each in members]))
                return done == count

            await run.until(look, "all settled", *members, seconds=seconds)
            took = time.monotonic() - began
            print(f"{count} in {took:.1f} s: {count / took:.0f} records/s by {workers}")
            for number in range(workers):
                flat([(done, mib[number]) for done, mib in samples], count)
            await run.finish(*members)
        assert run.project.one("SELECT count(*) FROM assay.source_duplicates") == 0
        assert run.vendor.stats().calls == count


def flat(samples: list[tuple[int, float]], count: int) -> None:
    """Late in the backlog a worker has no more than in its second quarter."""
    early = [mib for done, mib in samples if 0.25 * count < done <= 0.5 * count]
    late = [mib for done, mib in samples if 0.75 * count < done]
    print(f"MiB early {max(early):.0f}, late {statistics.median(late):.0f}, at most {max(late):.0f}")
    assert statistics.median(late) < max(early) + MORE, f"{max(early)} then {late}"


async def test_a_backlog_of_thousands(
    tmp_path: Path, db_url: str, broker: BrokerUnderTest, new_topic: NewTopic
) -> None:
    await drain(5_000, tmp_path, db_url, broker, new_topic(PARTITIONS), workers=1, seconds=120)


@pytest.mark.scale
@pytest.mark.timeout(3600)
async def test_a_backlog_of_a_hundred_thousand(
    tmp_path: Path, db_url: str, broker: BrokerUnderTest, new_topic: NewTopic
) -> None:
    await drain(100_000, tmp_path, db_url, broker, new_topic(PARTITIONS), workers=2, seconds=3000)
