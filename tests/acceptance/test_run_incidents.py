"""What befalls a run from outside: a vendor that asks for a pause, a database that dies, a deadly record."""

from __future__ import annotations

import asyncio
import os
import select
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import psycopg
import pytest
from call_accounts import books

from assay.adapters.embedded import EmbeddedServer
from assay.demo.generator import generate
from assay.vendor.server import RunningVendor, start_vendor
from assay.vendor.settings import FaultShares, VendorConfig
from labelling_project import Project, ended
from practice_runs import practising, run_tickets, ticket_project

ANSWERED = {"auto_candidate", "review_pending"}


# --- a vendor that asks for a pause -----------------------------------------------------------------------


@asynccontextmanager
async def refusing(project: Project, retry_after: int) -> AsyncIterator[RunningVendor]:
    """A vendor that answers every call with 429 and this Retry-After."""
    config = VendorConfig(
        project.folder / "gold.jsonl", faults=FaultShares(rate_limited=1.0), retry_after=retry_after
    )
    async with start_vendor(config) as vendor:
        yield vendor


async def test_a_pause_that_the_vendor_asks_for_is_kept(tmp_path: Path, db_url: str) -> None:
    """By the record that was refused, and by all the others: they are not called meanwhile."""
    count, pause = 8, 30
    project = ticket_project(tmp_path, db_url, count)
    async with refusing(project, pause) as vendor:
        with project.started(*run_tickets(vendor.base_url, concurrency=count)) as process:
            await vendor.until(lambda stats: stats.ended == 1)
            process.send_signal(signal.SIGTERM)
            code, told = await asyncio.to_thread(ended, process)
        assert code == 130, told
        assert vendor.stats().by_status == {"429": 1}
    ((attempts, seconds, same),) = project.rows(
        "SELECT t.attempts, extract(epoch FROM t.not_before - t.last_moved_at)::float8,"
        " p.due_at = t.not_before"
        " FROM assay.annotation_tasks t JOIN assay.parked_tasks p USING (task_id)"
        " WHERE t.last_reason = 'provider_rate_limited'"
    )
    # The pause, and on top of it a jitter of at most a second; no attempt is used.
    assert (attempts, same) == (0, True)
    assert pause <= seconds <= pause + 1
    assert project.states().keys() == {"retry_scheduled"}
    assert project.broken() == []


# --- a database that dies ---------------------------------------------------------------------------------


def kill_and_see_gone(pid: int) -> None:
    """SIGKILL a process that is not a child of this one, and wait for its end."""
    descriptor = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        assert select.select([descriptor], [], [], 30)[0], f"process {pid} lives on"
    finally:
        os.close(descriptor)


@contextmanager
def own_server(folder: Path) -> Iterator[tuple[EmbeddedServer, Project]]:
    """A server of the project's own, which goes away with the test."""
    server = EmbeddedServer(folder)
    try:
        with server.acquire() as lease:
            yield server, Project(folder, lease.url)
    finally:
        server.remove()


async def test_the_database_is_killed_under_a_run(tmp_path: Path) -> None:
    count = 60
    with own_server(tmp_path) as (server, project):
        ticket_project(tmp_path, project.database_url, count)
        async with practising(project, latency=0.1) as vendor:
            # The run finds the server by the project, as without any setting.
            command = run_tickets(vendor.base_url, "--lease", "20", "--quiet")
            with project.started(*command, ASSAY_DATABASE_URL="") as process:
                await vendor.until(lambda stats: stats.ended >= 15)
                before = server.status().pid
                assert before is not None
                await asyncio.to_thread(kill_and_see_gone, before)
                code, told = await asyncio.to_thread(ended, process)
            assert code == 0, told
            assert vendor.stats().calls == count
        assert server.status().pid not in {None, before}
        states = project.states()
        assert states.keys() <= ANSWERED
        assert sum(states.values()) == count == project.committed()
        assert project.broken() == []
        assert books(project, tmp_path / "journal.jsonl").discrepancies(most_lost=0) == []


# --- a deadly record --------------------------------------------------------------------------------------

MOST_KILLS = 20


def pass_a_lease(project: Project) -> None:
    """Move the database's clock past the lease that the dead run left, instead of waiting for it."""
    with psycopg.connect(project.database_url) as connection:
        connection.execute("UPDATE assay.instance SET clock_shown = clock_shown + make_interval(secs => 5)")


def kill_again_and_again(project: Project, *command: str) -> int:
    """Run what dies with its first call until it does not die; how often it did."""
    for kills in range(MOST_KILLS + 1):
        run = project.finished(*command, ASSAY_CRASH="after_call")
        if run.returncode != -signal.SIGKILL:
            assert run.returncode == 0, run.stderr
            return kills
        pass_a_lease(project)
    pytest.fail(f"the record was called {MOST_KILLS + 1} times")


async def test_a_record_that_kills_its_worker_is_quarantined(tmp_path: Path, db_url: str) -> None:
    count = 12
    project = ticket_project(tmp_path, db_url, count)
    records = [{"id": ticket.id, "text": ticket.text} for ticket in generate(count, seed=5)]
    project.write_records("before.jsonl", records[1:7])
    project.write_records("deadly.jsonl", records[:1])
    project.write_records("all.jsonl", records)
    async with practising(project) as vendor:

        def command(name: str) -> tuple[str, ...]:
            return run_tickets(vendor.base_url, "--quiet", input_file=name)

        await asyncio.to_thread(project.done, *command("before.jsonl"))
        kills = await asyncio.to_thread(kill_again_and_again, project, *command("deadly.jsonl"))
        assert kills >= 3, "a few kills are no proof against a record"
        assert vendor.stats().calls == 6 + kills
        await asyncio.to_thread(project.done, *command("all.jsonl"))
        assert vendor.stats().calls == count - 1 + kills, "it is not called any more"
    rows = project.rows("SELECT record_id, state::text, error_code FROM assay.annotation_tasks")
    deadly = records[0]["id"]
    assert [row for row in rows if row[0] == deadly] == [(deadly, "quarantined", "attempts_exhausted")]
    others = [row for row in rows if row[0] != deadly]
    assert len(others) == count - 1
    assert {state for _, state, _ in others} <= ANSWERED
    assert project.one("SELECT count(*) FROM assay.task_history WHERE move = 'take_over'") == kills
    assert project.broken() == []
    assert books(project, project.folder / "journal.jsonl").discrepancies(most_lost=kills) == []
