"""A worker that is stopped (SIGSTOP) beyond its lease, while another works on, and is continued."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Final

import pytest
from incidents import Command, check_the_end, command, on_an_ordinary_day

from assay.vendor.server import RunningVendor, start_vendor
from labelling_project import Project
from practice_runs import run_tickets, ticket_project

CONCURRENCY: Final = 100
RECORDS: Final = 1000


@pytest.fixture
def project(tmp_path: Path, db_url: str) -> Project:
    return ticket_project(tmp_path, db_url, RECORDS)


def labelling(vendor: RunningVendor) -> tuple[str, ...]:
    return run_tickets(vendor.base_url, concurrency=CONCURRENCY)


async def stop_under_load(vendor: RunningVendor, one: Command) -> None:
    """Stop it with slots full; the vendor goes on with its calls, whose answers wait in its sockets."""
    await one.until(vendor, lambda stats: stats.ended >= CONCURRENCY and stats.in_flight >= CONCURRENCY // 2)
    one.process.send_signal(signal.SIGSTOP)


async def go_on(one: Command) -> str:
    one.process.send_signal(signal.SIGCONT)
    code, told = await one.ended()
    assert code == 0, told[-2000:]
    return told


async def test_another_worker_finishes_while_it_sleeps(project: Project) -> None:
    """What it held is taken over. Its answers come too late: they are paid for and change nothing."""
    async with start_vendor(on_an_ordinary_day(project)) as vendor:
        with command(project, *labelling(vendor)) as one:
            await stop_under_load(vendor, one)
            held = project.states()["processing"]
            with command(project, *labelling(vendor)) as other:
                code, said = await other.ended()
            assert code == 0, said[-2000:]
            assert project.states().keys().isdisjoint({"processing", "retry_scheduled"})
            taken = project.one("SELECT count(*) FROM assay.task_history WHERE move = 'take_over'")
            before = project.rows("SELECT name, record_id, task_id, revision FROM assay.results")
            told = await go_on(one)
        await vendor.until(lambda stats: stats.in_flight == 0)
    # A claim may have been on its way to the database when the worker was stopped.
    assert taken >= held >= CONCURRENCY // 2
    found = check_the_end(project, RECORDS)
    # Nothing that came late moved anything.
    assert project.rows("SELECT name, record_id, task_id, revision FROM assay.results") == before
    late = found.late()
    assert late, told[-2000:]
    # At what they cost, which the comparison has checked; a fault may have kept that from us.
    assert {found.ledger[key].kind for key in late} <= {"kept", "untold"}
    assert any(found.ledger[key].kind == "kept" for key in late)
    assert "lease_lost" in told
    # Every attempt that was replaced is in the ledger once: as it was reported late, or at its reserve.
    assert len(late | found.keys("unknown")) == taken


async def test_both_go_on_together(project: Project) -> None:
    """It is continued while the other is at work: both share the rest, and nobody does anything twice."""
    async with start_vendor(on_an_ordinary_day(project)) as vendor:
        with command(project, *labelling(vendor)) as one:
            await stop_under_load(vendor, one)
            calls = vendor.stats().calls
            with command(project, *labelling(vendor)) as other:
                await other.until(vendor, lambda stats: stats.calls >= calls + CONCURRENCY)
                one.process.send_signal(signal.SIGCONT)
                (one_code, one_said), (other_code, other_said) = await one.ended(), await other.ended()
        await vendor.until(lambda stats: stats.in_flight == 0)
    assert (one_code, other_code) == (0, 0), one_said[-2000:] + other_said[-2000:]
    check_the_end(project, RECORDS)
