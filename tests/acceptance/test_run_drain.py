"""How a run ends before its end: asked to stop, told to stop at once, refused by the vendor, left alone."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest
from call_accounts import books

from labelling_project import PATIENCE_SECONDS, Project, ended
from practice_runs import CONCURRENCY, practising, run_tickets, ticket_project

TICKETS_IN_FILE = 80
# Seconds, on a slow machine too. A run that waited for its calls would take ten minutes, a drain 30 s more.
AT_ONCE = 25.0


@pytest.fixture
def project(tmp_path: Path, db_url: str) -> Project:
    return ticket_project(tmp_path, db_url, TICKETS_IN_FILE)


def all_labelled(project: Project, count: int = TICKETS_IN_FILE) -> bool:
    states = project.states()
    return states.keys() <= {"auto_candidate", "review_pending"} and sum(states.values()) == count


def next_offset(project: Project) -> int:
    """The first offset without a destination, counted from the records that were claimed."""
    offsets = {offset for (offset,) in project.rows("SELECT source_offset FROM assay.inputs")}
    return next(offset for offset in range(len(offsets) + 1) if offset not in offsets)


async def test_a_first_signal_drains(project: Project) -> None:
    async with practising(project, latency=0.3) as vendor:
        with project.started(*run_tickets(vendor.base_url)) as process:
            await vendor.until(lambda stats: stats.ended >= 8 and stats.in_flight == CONCURRENCY)
            # Something is claimed ahead: more is held or settled than was ever called.
            ahead = partial(until, lambda: sum(project.states().values()) > vendor.stats().calls + 1, process)
            await asyncio.to_thread(ahead)
            process.send_signal(signal.SIGTERM)
            code, told = await asyncio.to_thread(ended, process)
        assert code == 130
        assert "Run the same command again" in told
        # Calls in flight were waited for, and what was claimed but not called is parked at no cost.
        assert vendor.stats().by_outcome == {"replied": vendor.stats().calls}
        states = project.states()
        assert states.keys() <= {"auto_candidate", "review_pending", "retry_scheduled"}
        assert states["retry_scheduled"] > 0
        assert sum(states.values()) < TICKETS_IN_FILE
        assert sum(states.values()) - states["retry_scheduled"] == vendor.stats().calls
        assert project.rows(
            "SELECT DISTINCT attempts, last_move::text, last_reason FROM assay.annotation_tasks"
            " WHERE state = 'retry_scheduled'"
        ) == [(0, "park", "drained")]
        assert project.committed() == next_offset(project) == sum(states.values())
        assert project.broken() == []

        again = await asyncio.to_thread(project.finished, *run_tickets(vendor.base_url))
        assert again.returncode == 0, again.stderr
        assert vendor.stats().calls == TICKETS_IN_FILE
    assert all_labelled(project)
    assert project.committed() == TICKETS_IN_FILE
    assert project.broken() == []
    assert books(project, project.folder / "journal.jsonl").discrepancies(most_lost=0) == []


async def test_calls_that_outlast_the_drain_are_cut_off_and_charged(project: Project) -> None:
    async with practising(project, latency=600.0) as vendor:
        with project.started(*run_tickets(vendor.base_url, "--drain", "0.5")) as process:
            await vendor.until(lambda stats: stats.in_flight == CONCURRENCY)
            process.send_signal(signal.SIGTERM)
            code, _ = await asyncio.to_thread(ended, process)
        assert code == 130
        assert vendor.stats().by_outcome == {"client_gone": CONCURRENCY}
    assert project.states().keys() == {"retry_scheduled"}
    assert project.rows("SELECT DISTINCT attempts, last_reason FROM assay.annotation_tasks") == [
        (0, "drained")
    ]
    # Nobody knows whether the vendor billed them: each is in the ledger, at its reserve.
    assert project.rows("SELECT outcome, count(*) FROM assay.calls GROUP BY 1") == [
        ("outcome_unknown", CONCURRENCY)
    ]
    assert project.broken() == []


async def test_a_second_signal_ends_at_once(project: Project) -> None:
    async with practising(project, latency=600.0) as vendor:
        with project.started(*run_tickets(vendor.base_url)) as process:
            await vendor.until(lambda stats: stats.in_flight == CONCURRENCY)
            process.send_signal(signal.SIGINT)
            said = await asyncio.to_thread(lines_until, process, "once more to end at once")
            assert said, "the run does not say what a second signal does"
            began = time.monotonic()
            process.send_signal(signal.SIGINT)
            code, _ = await asyncio.to_thread(ended, process)
        assert code == 130
        assert time.monotonic() - began < AT_ONCE
        await vendor.until(lambda stats: stats.in_flight == 0)
    # The leases are left behind, with those of tasks that wait for a slot; audit finds nothing wrong with it.
    assert CONCURRENCY <= project.states()["processing"] <= 2 * CONCURRENCY
    assert project.broken() == []

    async with practising(project) as vendor:
        again = await asyncio.to_thread(project.finished, *run_tickets(vendor.base_url))
        assert again.returncode == 0, again.stderr
    assert all_labelled(project)
    assert project.broken() == []
    found = books(project, project.folder / "journal.jsonl")
    assert found.discrepancies(most_lost=CONCURRENCY) == []
    assert len(found.lost) == CONCURRENCY


def lines_until(process: subprocess.Popen[str], part: str) -> str | None:
    assert process.stderr is not None
    return next((line for line in process.stderr if part in line), None)


async def test_a_refused_key_stops_the_run_and_burns_nothing(project: Project) -> None:
    """The key is withdrawn in the middle of a run: the vendor comes back at its port and knows it no more."""
    with ExitStack() as stack:
        async with practising(project, latency=0.1, api_key="first") as vendor:
            port, command = vendor.port, run_tickets(vendor.base_url)
            process = stack.enter_context(project.started(*command, ASSAY_MODEL_API_KEY="first"))
            await vendor.until(lambda stats: stats.ended >= 10)
        async with practising(project, port=port, api_key="second") as vendor:
            code, told = await asyncio.to_thread(ended, process)
            assert vendor.stats().by_status == {"401": vendor.stats().calls}
    assert code == 3
    assert "provider_auth" in told
    assert "no record was burnt" in told
    states = project.states()
    assert states.keys() == {"auto_candidate", "review_pending", "retry_scheduled"}
    # Those whose calls were refused, and perhaps some that were claimed and not called yet. Nothing else.
    waiting = set(project.rows(
        "SELECT attempts, last_reason FROM assay.annotation_tasks WHERE state = 'retry_scheduled'"
        " AND last_reason IN ('provider_auth', 'drained')"
    ))  # fmt: skip
    assert waiting in ({(0, "provider_auth")}, {(0, "provider_auth"), (0, "drained")})
    assert project.committed() == next_offset(project)

    async with practising(project, port=port, api_key="second") as vendor:
        again = await asyncio.to_thread(project.finished, *command, ASSAY_MODEL_API_KEY="second")
        assert again.returncode == 0, again.stderr
    assert all_labelled(project)
    assert project.broken() == []


@contextmanager
def vendor_process(project: Project, port: int) -> Iterator[subprocess.Popen[str]]:
    """`assay vendor` as people start it; it listens when this returns."""
    with project.started(
        "vendor", "--gold", "gold.jsonl", "--port", str(port), "--journal", "journal.jsonl", "--latency",
        "0.05", "--rate-limit-share", "0", "--server-error-share", "0", "--prose-share", "0",
        "--string-confidence-share", "0", "--extra-field-share", "0", "--truncation-share", "0",
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert "listening" in process.stdout.readline()
        yield process


def until(holds: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Look again every moment for as long as the process lives, and no longer than patience lasts."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.1)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_an_outage_of_the_vendor_only_makes_records_wait(project: Project) -> None:
    port = free_port()
    journal = project.folder / "journal.jsonl"
    with project.started(*run_tickets(f"http://127.0.0.1:{port}/v1", concurrency=16)) as run:
        # The vendor is not there yet: its breaker opens after a few calls, and nothing more is claimed.
        until(lambda: project.one("SELECT count(*) FROM assay.account_events WHERE kind = 'opened'") > 0, run)
        assert project.one("SELECT max(attempts) FROM assay.annotation_tasks") in (0, 1)
        with vendor_process(project, port) as vendor:
            until(lambda: len(journal.read_bytes().splitlines()) >= 10, run)
            vendor.kill()
        with vendor_process(project, port):
            code, told = ended(run)
    assert code == 0, told
    assert all_labelled(project)
    assert project.one("SELECT count(*) FROM assay.dead_letters") == 0
    assert project.committed() == TICKETS_IN_FILE
    assert project.broken() == []
