"""A topic of which most is no record: the worker stops by itself, and nothing of it is lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kafka.brokers import BrokerUnderTest
from kafka.produced import MALFORMED, tickets
from kafka.stage import Stage, Worker, stage
from kafka.topic_runs import committed

NewTopic = Callable[[int], str]
GOOD, PARTITIONS = 600, 2


def mostly_malformed() -> list[Mapping[str, Any] | bytes | None]:
    """Four of five."""
    mixed: list[Mapping[str, Any] | bytes | None] = []
    for number, record in enumerate(tickets(GOOD)):
        mixed += [record, *(MALFORMED[(number + each) % len(MALFORMED)] for each in range(4))]
    return mixed


def isolated(run: Stage) -> int:
    return int(run.project.one("SELECT count(*) FROM assay.isolated_records"))


async def stops_by_itself(run: Stage, worker: Worker) -> None:
    """One clear message, and 1; what is committed has its destination, and it settles what it had begun."""
    assert await worker.ended() == 1, worker.said()[-3000:]
    assert worker.events("are malformed") == 1
    assert worker.events("Traceback") == 0
    message = next(line for line in worker.said().splitlines() if "are malformed" in line)
    assert all(word in message for word in ("--max-invalid", "assay isolated list", "nothing is lost"))
    at_broker = committed(run.broker.bootstrap, run.group, run.topic, PARTITIONS)
    done = int(run.project.one(
        "SELECT (SELECT count(*) FROM assay.isolated_records) + (SELECT count(*) FROM assay.inputs)"
    ))  # fmt: skip
    assert 0 < sum(at_broker.values()) <= done < len(run.feed.sent)
    assert run.project.states().get("processing", 0) == 0
    assert run.watch.passed == []


async def test_the_invalid_share_stops_the_worker(
    tmp_path: Path, db_url: str, broker: BrokerUnderTest, new_topic: NewTopic
) -> None:
    async with stage(tmp_path, db_url, broker, new_topic(PARTITIONS), PARTITIONS) as run:
        await run.send(mostly_malformed())
        with run.working() as worker:
            await stops_by_itself(run, worker)
            first = isolated(run)
        # Started again as it was, it comes a little further and stops again.
        with run.working() as worker:
            await stops_by_itself(run, worker)
            assert first < isolated(run) < 4 * GOOD
        with run.working("--max-invalid", "0.9") as worker:
            await run.finish(worker)
        assert isolated(run) == 4 * GOOD
        assert run.settled() == GOOD
