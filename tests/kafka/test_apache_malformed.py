"""Two workers stop by themselves at the same time; the embedded broker loses such a group."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kafka.brokers import BrokerUnderTest
from kafka.stage import stage
from kafka.test_mostly_malformed import GOOD, PARTITIONS, isolated, mostly_malformed

NewTopic = Callable[[int], str]


async def test_both_workers_stop(
    tmp_path: Path, db_url: str, broker: BrokerUnderTest, new_topic: NewTopic
) -> None:
    """What one leaves unread is the other's, which finds the same."""
    async with stage(tmp_path, db_url, broker, new_topic(PARTITIONS), PARTITIONS) as run:
        with run.working() as one, run.working() as other:
            await run.both_at_work(one, other)
            await run.send(mostly_malformed())
            assert [await one.ended(), await other.ended()] == [1, 1]
            assert [worker.events("are malformed") for worker in (one, other)] == [1, 1]
        with run.working("--max-invalid", "0.9") as worker:
            await run.finish(worker)
        assert isolated(run) == 4 * GOOD
