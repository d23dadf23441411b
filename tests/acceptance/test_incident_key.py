"""The vendor refuses the key in the middle of a run: all workers stop, and nothing is burnt."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

import aiohttp
import psycopg
import pytest
from incidents import ANSWERED, Command, check_the_end, command, on_an_ordinary_day, run_to_the_end

from assay.vendor.server import RunningVendor, start_vendor
from assay.vendor.settings import FaultShares
from labelling_project import TICKETS, Project
from practice_runs import run_tickets, ticket_project

CONCURRENCY: Final = 40
RECORDS: Final = 800
WORKERS: Final = 2
# Calls of a run whose key is refused from the start: the first call of an account whose limits nobody knows
# goes alone, and its answer stops the version.
CALLS_TO_KNOW: Final = 2
CODES: Final = ("provider_auth", "provider_quota")


@pytest.fixture
def project(tmp_path: Path, db_url: str) -> Project:
    """Its records give up after half an hour of trying: no time may count while the version is stopped."""
    made = ticket_project(tmp_path, db_url, RECORDS)
    made.write("tickets.py", TICKETS.replace("max_attempts=20", "max_attempts=2, max_age_hours=0.5"))
    return made


def labelling(vendor: RunningVendor) -> tuple[str, ...]:
    return run_tickets(vendor.base_url, concurrency=CONCURRENCY)


async def set_key(vendor: RunningVendor, state: str) -> None:
    address = vendor.base_url.removesuffix("/v1") + "/practice/settings"
    async with aiohttp.ClientSession() as session, session.post(address, json={"key_state": state}) as reply:
        assert reply.status == 200


async def stopped(running: Command) -> None:
    code, told = await running.ended()
    assert code == 3, told[-2000:]
    assert any(code in told for code in CODES)
    assert "no record was burnt" in told


def check_that_nothing_was_burnt(project: Project) -> None:
    """No attempt used, no age, no dead letter; what is not labelled waits."""
    assert project.states().keys() <= ANSWERED | {"retry_scheduled"}
    assert project.one("SELECT count(*) FROM assay.dead_letters") == 0
    assert project.rows(
        "SELECT DISTINCT attempts FROM assay.annotation_tasks WHERE state = 'retry_scheduled'"
    ) == [(0,)]
    # What one call takes, and no more.
    assert project.one("SELECT max(aged_seconds) FROM assay.annotation_tasks") < 5
    assert project.broken() == []


def let_hours_pass(project: Project) -> None:
    with psycopg.connect(project.database_url) as connection:
        connection.execute("UPDATE assay.instance SET clock_shown = clock_shown + interval '3 hours'")


@pytest.mark.parametrize("state", ["invalid", "forbidden", "exhausted"])
async def test_a_refused_key_stops_all_workers_and_burns_nothing(state: str, project: Project) -> None:
    config = replace(on_an_ordinary_day(project), faults=FaultShares())
    async with start_vendor(config) as vendor:
        with ExitStack() as stack:
            workers = [stack.enter_context(command(project, *labelling(vendor))) for _ in range(WORKERS)]
            await workers[0].until(vendor, lambda stats: stats.ended >= 200 and stats.in_flight > CONCURRENCY)
            await set_key(vendor, state)
            for worker in workers:
                await stopped(worker)
        refused = {"invalid": "401", "forbidden": "403", "exhausted": "429"}[state]
        # No more than were on their way, and what the slots took before the first refusal was known.
        assert 0 < vendor.stats().by_status[refused] <= 2 * WORKERS * CONCURRENCY
        check_that_nothing_was_burnt(project)

        for _ in range(2):
            let_hours_pass(project)
            before = vendor.stats().calls
            with command(project, *labelling(vendor)) as again:
                await stopped(again)
            assert 0 < vendor.stats().calls - before <= CALLS_TO_KNOW
            print("calls with the wrong key", vendor.stats().calls - before)
            check_that_nothing_was_burnt(project)

        let_hours_pass(project)
        await set_key(vendor, "valid")
        await run_to_the_end(project, labelling(vendor))
    found = check_the_end(project, RECORDS)
    assert found.keys("unknown") == found.keys("untold") == set()
    assert project.one("SELECT count(*) FROM assay.dead_letters") == 0
