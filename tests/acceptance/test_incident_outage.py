"""The vendor is away for more than an hour, on a clock that runs faster: records wait, none is burnt."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Final

import psycopg
import pytest
from _pytest.mark import ParameterSet
from incidents import check_the_end, command, on_an_ordinary_day

from assay.vendor.server import start_vendor
from assay.vendor.settings import FaultShares
from labelling_project import TICKETS, Project
from practice_runs import run_tickets, ticket_project

CONCURRENCY: Final = 40
RECORDS: Final = 1200
WORKERS: Final = 2
# Seconds of the database's clock per second: 6 s are 72 minutes.
SCALE: Final = 720
AN_HOUR: Final = 3600
# A call's timeout in seconds. The lease of a probe is a little more, but on the database's clock: only a long
# one outlives a call.
LONG: Final = 3600
SHORT: Final = 3


@dataclass(frozen=True, slots=True)
class Trouble:
    """What callers meet, for how long (seconds), and the hours after which a record would give up."""

    name: str
    settings: dict[str, str | float]
    seconds: float = 6.0
    max_age_hours: int = 1
    call_timeout: int = LONG


def scale(trouble: Trouble) -> ParameterSet:
    return pytest.param(trouble, marks=pytest.mark.scale)


TROUBLES: Final = (
    Trouble("refusing", {"down": "refusing"}),
    Trouble("errors", {"server_error": 1.0}),
    scale(Trouble("closing", {"down": "closing"})),
    scale(Trouble("resets", {"reset": 1.0})),
    # One call that hangs takes more than half an hour of this clock.
    scale(Trouble("hanging", {"hang": 1.0}, seconds=25.0, max_age_hours=4, call_timeout=SHORT)),
)


def outage_project(trouble: Trouble, folder: Path, database_url: str) -> Project:
    """Its records give up after three attempts, or when they have tried for less than the outage lasts."""
    made = ticket_project(folder, database_url, RECORDS)
    limits = (
        f"max_attempts=3, max_age_hours={trouble.max_age_hours}, call_timeout_seconds={trouble.call_timeout}"
    )
    made.write("tickets.py", TICKETS.replace("max_attempts=20", limits))
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "UPDATE assay.instance SET clock_real = clock_timestamp(), clock_shown = clock_timestamp(),"
            " clock_scale = %s", (SCALE,),
        )  # fmt: skip
    return made


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.name)
async def test_an_hour_without_the_vendor(trouble: Trouble, tmp_path: Path, db_url: str) -> None:
    project = outage_project(trouble, tmp_path, db_url)
    config = replace(on_an_ordinary_day(project), faults=FaultShares())
    async with start_vendor(config) as vendor:
        # A lease of 24 hours is two minutes here.
        labelling = run_tickets(
            vendor.base_url, "--lease", "86400", "--max-spend", "5", concurrency=CONCURRENCY
        )
        with ExitStack() as stack:
            workers = [stack.enter_context(command(project, *labelling)) for _ in range(WORKERS)]
            await workers[0].until(vendor, lambda stats: stats.ended >= RECORDS // 3)
            await vendor.change(dict(trouble.settings), seconds=trouble.seconds)
            for worker in workers:
                code, told = await worker.ended()
                assert code == 0, told[-2000:]
        await vendor.until(lambda stats: stats.in_flight == 0)
    probes = check_the_breaker(project, in_turn=trouble.call_timeout == LONG)
    # What was in flight, what began before five had failed, and one call at a time from then on.
    failed = project.one("SELECT count(*) FROM assay.calls WHERE outcome = 'failed'")
    assert 0 < failed <= WORKERS * CONCURRENCY * 3 // 2 + probes
    # Attempts and age stood still.
    attempts, aged = project.rows("SELECT max(attempts), max(aged_seconds) FROM assay.annotation_tasks")[0]
    assert attempts <= 3
    assert aged < trouble.max_age_hours * AN_HOUR / 2
    print(f"{trouble.name}: {failed} failed, {probes} probes, {attempts} attempts, aged {aged:.0f} s")
    assert project.one("SELECT count(*) FROM assay.dead_letters") == 0
    check_the_end(project, RECORDS)


def check_the_breaker(project: Project, *, in_turn: bool) -> int:
    """It opened, was probed, `in_turn` by one worker at a time, and closed after more than an hour; how many
    probes."""
    events = project.rows(
        "SELECT kind, at, opened_at, worker FROM assay.account_events"
        " WHERE kind IN ('opened', 'half_open', 'closed') ORDER BY event_id"
    )
    kinds = [kind for kind, *_ in events]
    # Each probe ends, one way or the other, before the next begins.
    follows = {"opened": {"half_open", "closed"}, "half_open": {"opened", "closed"}, "closed": {"opened"}}
    assert kinds[0] == "opened"
    assert kinds[-1] == "closed"
    assert not in_turn or all(after in follows[before] for before, after in pairwise(kinds)), kinds
    gone = [(at - opened_at).total_seconds() for kind, at, opened_at, _ in events if kind == "closed"]
    assert max(gone) > AN_HOUR, gone
    return kinds.count("half_open")
