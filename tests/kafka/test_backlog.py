"""A backlog is drained with flat memory; two versions of patience."""

from __future__ import annotations

import statistics
from collections.abc import Callable
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
    count: int, folder: Path, db_url: str, broker: BrokerUnderTest, topic: str, *, seconds: float
) -> None:
    async with stage(folder, db_url, broker, topic, PARTITIONS, latency=0.0, mistakes=NO_MISTAKES) as run:
        await run.send(with_malformed(tickets(count), 50))
        with run.working(concurrency=64) as worker:
            samples: list[tuple[int, float]] = []

            def look() -> bool:
                done = run.settled()
                samples.append((done, memory_of(worker.process.pid)))
                return done == count

            await run.until(look, "all settled", worker, seconds=seconds)
            middle = [mib for done, mib in samples if 0.25 * count < done <= 0.5 * count]
            end = [mib for done, mib in samples if 0.75 * count < done]
            assert statistics.median(end) < max(middle) + MORE, f"{max(middle)} then {end}"
            await run.finish(worker)
        assert run.project.one("SELECT count(*) FROM assay.source_duplicates") == 0
        assert run.vendor.stats().calls == count


async def test_a_backlog_of_thousands(
    tmp_path: Path, db_url: str, broker: BrokerUnderTest, new_topic: NewTopic
) -> None:
    await drain(5_000, tmp_path, db_url, broker, new_topic(PARTITIONS), seconds=120)


@pytest.mark.scale
@pytest.mark.timeout(3600)
async def test_a_backlog_of_a_hundred_thousand(
    tmp_path: Path, db_url: str, broker: BrokerUnderTest, new_topic: NewTopic
) -> None:
    await drain(100_000, tmp_path, db_url, broker, new_topic(PARTITIONS), seconds=3000)
