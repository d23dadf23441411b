"""SIGKILL in every phase with hundreds of calls in flight: the books agree to the last call."""

from __future__ import annotations

import random
import signal
from collections.abc import Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final

import pytest
from incidents import check_the_end, command, on_an_ordinary_day, run_to_the_end

from assay.demo.generator import generate
from assay.pipeline.crash import WORKER_POINTS
from assay.vendor.journal import Stats
from assay.vendor.server import RunningVendor, start_vendor
from labelling_project import Project
from practice_runs import run_tickets, ticket_project

CONCURRENCY: Final = 250
RECORDS: Final = 3000
# Every so many tickets a line that is no ticket.
BAD_LINE_EVERY: Final = 60
# Late enough that slots are full (they open by and by) and answers are coming in. A point that is missing
# dies at its first pass.
PASSES: Final = {
    "before_claim": 12, "in_claim": 12, "after_claim": 12, "before_call": 500, "after_call": 350,
    "before_first_pass_note": 10, "after_first_pass_note": 10, "before_finish": 12, "in_finish": 12,
    "after_finish": 12, "before_isolation": 3, "after_isolation": 3, "before_renewal": 2,
    "before_commit_offset": 1, "after_commit_offset": 1,
}  # fmt: skip
# Kills on one database, one after the other, before a run may end. What depends on the time comes first,
# while much is left to read.
GROUPS: Final = (
    ("before_isolation", "after_call", "before_claim", "in_finish"),
    ("after_isolation", "before_first_pass_note", "in_claim", "after_finish"),
    ("before_renewal", "before_commit_offset", "after_claim", "after_first_pass_note"),
    ("while_draining", "after_commit_offset", "before_finish", "before_call"),
)
# Tasks that a kill must find in the run's hands to count as one under load.
MANY: Final = 50
# A line that is no ticket may be read before the first claim of a run.
# Offsets are committed once a second: how much is held at that moment depends on the machine.
LIGHT: Final = frozenset(
    {"before_isolation", "after_isolation", "before_commit_offset", "after_commit_offset"}
)


@pytest.fixture
def project(tmp_path: Path, db_url: str) -> Project:
    return ticket_project(tmp_path, db_url, RECORDS)


def write_input(project: Project) -> int:
    """The tickets with bad lines among them; how many lines."""
    rows: list[object] = [{"id": ticket.id, "text": ticket.text} for ticket in generate(RECORDS, seed=5)]
    for place in range(BAD_LINE_EVERY, RECORDS, BAD_LINE_EVERY):
        rows.insert(place, "no JSON at all")
    project.write_records("tickets.jsonl", rows)
    return len(rows)


def labelling(vendor: RunningVendor) -> tuple[str, ...]:
    return run_tickets(vendor.base_url, "--quiet", input_file="tickets.jsonl", concurrency=CONCURRENCY)


def gone(stats: Stats) -> int:
    return stats.by_outcome["client_gone"]


def is_loaded(calls: int, stats: Stats) -> bool:
    return stats.calls >= calls and stats.in_flight >= MANY


async def kill_at(point: str, project: Project, vendor: RunningVendor) -> None:
    """Run until the point kills the run; the vendor is idle afterwards."""
    armed = f"{point}:{PASSES.get(point, 1)}"
    with command(project, *labelling(vendor), ASSAY_CRASH=armed) as running:
        if point == "while_draining":
            await running.until(vendor, partial(is_loaded, vendor.stats().calls + 2 * CONCURRENCY))
            running.process.send_signal(signal.SIGTERM)
        code, told = await running.ended()
    assert code == -signal.SIGKILL, f"{armed} was not reached: exit {code}\n{told[-2000:]}"
    await vendor.until(lambda stats: stats.in_flight == 0)
    held = project.states().get("processing", 0)
    assert held >= MANY or point in LIGHT, f"{armed}: {held} tasks were held"


def test_every_point_is_killed_at() -> None:
    assert sorted(chain(*GROUPS)) == sorted(WORKER_POINTS)


@pytest.mark.parametrize("points", GROUPS, ids="+".join)
async def test_killed_at_points_under_load(points: Sequence[str], project: Project) -> None:
    offsets = write_input(project)
    async with start_vendor(on_an_ordinary_day(project)) as vendor:
        for point in points:
            await kill_at(point, project, vendor)
        await run_to_the_end(project, labelling(vendor))
        stats = vendor.stats()
    found = check_the_end(project, RECORDS, offsets=offsets)
    check_losses(found.lost, gone(stats), kills=len(points))
    assert len(found.journal) == stats.calls
    assert project.one("SELECT count(*) FROM assay.isolated_records") == offsets - RECORDS


def check_losses(lost: set[str], gone: int, *, kills: int) -> None:
    """What a kill loses is in the ledger, and is no more than the slots and as many unwritten finishes."""
    assert MANY <= gone <= kills * CONCURRENCY
    assert gone <= len(lost) <= kills * 2 * CONCURRENCY


async def test_killed_from_outside_at_any_moment(project: Project) -> None:
    kills = 4
    offsets = write_input(project)
    seed = random.SystemRandom().randrange(10**6)
    moments = random.Random(seed)
    async with start_vendor(on_an_ordinary_day(project)) as vendor:
        for _ in range(kills):
            calls = vendor.stats().calls + moments.randrange(MANY, 2 * CONCURRENCY)
            with command(project, *labelling(vendor)) as running:
                await running.until(vendor, partial(is_loaded, calls))
                running.process.kill()
                code, told = await running.ended()
            assert code == -signal.SIGKILL, f"seed {seed}: {told[-2000:]}"
            await vendor.until(lambda stats: stats.in_flight == 0)
        await run_to_the_end(project, labelling(vendor))
        stats = vendor.stats()
    found = check_the_end(project, RECORDS, offsets=offsets)
    check_losses(found.lost, gone(stats), kills=kills)
