"""Workers are killed at every named point under load, one at a time, while another works on."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final

import pytest

from assay.pipeline.crash import CRASH_POINTS
from kafka.brokers import BrokerUnderTest
from kafka.produced import tickets, with_malformed
from kafka.stage import Stage, Worker, stage

# Points of the publisher, which has tests of its own.
PUBLISHER: Final = frozenset({"before_publish", "after_send", "before_receipt", "after_receipt"})
# Each group dies on one topic at the same time, each member with its own share of the partitions.
GROUPS: Final = (
    ("before_claim", "after_call", "in_finish", "before_isolation"),
    ("in_claim", "before_first_pass_note", "after_finish", "after_isolation"),
    ("after_claim", "before_call", "before_commit_offset", "before_renewal"),
    ("while_draining", "after_first_pass_note", "before_finish", "after_commit_offset"),
)
# Late enough that the slots are full.
PASSES: Final = {"before_call": 15, "after_call": 10, "before_finish": 4, "in_finish": 4, "after_finish": 4}
PARTITIONS: Final = 10


def test_every_point_is_killed_at() -> None:
    assert {*chain(*GROUPS)} == set(CRASH_POINTS) - PUBLISHER


def nearly_settled(run: Stage, sent: int) -> bool:
    return run.settled() > sent - 200


async def kill_all(run: Stage, armed: dict[str, Worker], survivor: Worker) -> None:
    """Feed until each has died at its point."""
    sent = 0
    while alive := {point: worker for point, worker in armed.items() if worker.process.poll() is None}:
        assert sent < 4000, f"points not reached: {alive.keys()}; {run.state()}"
        await run.send(with_malformed(tickets(60, sent), 12))
        sent += 60
        if "while_draining" in alive and "partition_assigned" in alive["while_draining"].said():
            alive["while_draining"].send(signal.SIGTERM)
        await run.until(partial(nearly_settled, run, sent), "most are settled", survivor)
    codes = {point: worker.process.returncode for point, worker in armed.items()}
    assert set(codes.values()) == {-signal.SIGKILL}, codes


@pytest.mark.parametrize("points", GROUPS, ids="+".join)
async def test_killed_at_points_under_load(
    points: Sequence[str],
    tmp_path: Path,
    db_url: str,
    broker: BrokerUnderTest,
    new_topic: Callable[[int], str],
) -> None:
    async with stage(tmp_path, db_url, broker, new_topic(PARTITIONS), PARTITIONS, latency=0.1) as run:
        with ExitStack() as stack:
            survivor = stack.enter_context(run.working(concurrency=16))
            armed = {
                point: stack.enter_context(run.working(ASSAY_CRASH=f"{point}:{PASSES.get(point, 1)}"))
                for point in points
            }
            await run.send(tickets(100, 5000))
            await kill_all(run, armed, survivor)
            await run.finish(survivor)
