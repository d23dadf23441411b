"""The database is stopped, killed and started again in the middle of a run with calls in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from incidents import check_the_end, command, on_an_ordinary_day, run_to_the_end
from test_run_incidents import kill_and_see_gone, own_server

from assay.adapters.embedded import EmbeddedServer
from assay.vendor.server import RunningVendor, start_vendor
from assay.vendor.stats import Stats
from labelling_project import Project
from practice_runs import run_tickets, ticket_project

CONCURRENCY: Final = 150
RECORDS: Final = 1000


def is_loaded(calls: int, stats: Stats) -> bool:
    return stats.ended >= calls and stats.in_flight >= CONCURRENCY // 3


Outage = Callable[[EmbeddedServer], Awaitable[None]]


@contextmanager
def project_of_its_own(folder: Path) -> Iterator[tuple[EmbeddedServer, Project]]:
    with own_server(folder) as (server, project):
        ticket_project(folder, project.database_url, RECORDS)
        yield server, project


def labelling(vendor: RunningVendor, *options: str) -> tuple[str, ...]:
    # Long enough that no lease ends while the database is away.
    return run_tickets(vendor.base_url, "--quiet", "--lease", "30", *options, concurrency=CONCURRENCY)


async def shut_down_and_started(server: EmbeddedServer) -> None:
    """Every session is ended in the middle of whatever it does; nobody answers for a while."""
    port = server.status().port
    assert await asyncio.to_thread(server.stop, force=True)
    (await asyncio.to_thread(server.acquire)).release()
    assert server.status().port == port


async def killed(server: EmbeddedServer) -> None:
    """SIGKILL of the postmaster; its supervisor brings it up again, after recovery."""
    pid = server.status().pid
    assert pid is not None
    await asyncio.to_thread(kill_and_see_gone, pid)


@pytest.mark.parametrize("outage", [shut_down_and_started, killed])
async def test_the_run_goes_on_by_itself(outage: Outage, tmp_path: Path) -> None:
    with project_of_its_own(tmp_path) as (server, project):
        async with start_vendor(on_an_ordinary_day(project)) as vendor:
            with command(project, *labelling(vendor)) as running:
                for ended in (RECORDS // 5, RECORDS // 2):
                    await running.until(vendor, partial(is_loaded, ended))
                    await outage(server)
                code, told = await running.ended()
            assert code == 0, told[-2000:]
            await vendor.until(lambda stats: stats.in_flight == 0)
        found = check_the_end(project, RECORDS)
        # No answer was lost, and none was paid twice.
        assert found.keys("unknown") == found.late() == set()


@pytest.mark.scale
async def test_an_outage_beyond_patience_ends_the_run(tmp_path: Path) -> None:
    """The run gives up after a minute with one sentence; another one finishes."""
    with project_of_its_own(tmp_path) as (server, project):
        async with start_vendor(on_an_ordinary_day(project)) as vendor:
            with command(project, *labelling(vendor, "--lease", "5")) as running:
                await running.until(vendor, lambda stats: stats.ended >= RECORDS // 4)
                assert await asyncio.to_thread(server.stop, force=True)
                code, told = await running.ended()
            assert code == 1, told
            assert told.count("PostgreSQL gave no answer") == 1
            assert "Traceback" not in told
            lease = await asyncio.to_thread(server.acquire)
            await run_to_the_end(project, labelling(vendor))
            await vendor.until(lambda stats: stats.in_flight == 0)
        with lease:
            found = check_the_end(project, RECORDS)
        assert 0 < len(found.lost) <= 2 * CONCURRENCY
