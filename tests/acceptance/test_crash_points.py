"""SIGKILL at every named point and at any other moment: nothing is lost, nothing is doubled."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import subprocess
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from call_accounts import Books, books

from assay.demo.generator import generate
from assay.pipeline.crash import WORKER_POINTS
from assay.vendor.journal import Stats
from assay.vendor.server import RunningVendor
from assay.vendor.settings import FaultShares
from labelling_project import Project, ended
from practice_runs import CONCURRENCY, practising, run_tickets, ticket_project

RECORDS = 60
BAD_LINES = ("no JSON at all", '{"id": "has-no-text"}', '{"id": "has-a-blank-text", "text": " "}')
FAULTS = FaultShares(
    rate_limited=0.04, server_error=0.03, prose_prefix=0.08, string_confidence=0.03, extra_field=0.03,
    truncation=0.03,
)  # fmt: skip
# Late enough that calls are in flight and others have finished. A point that is missing here dies at its
# first pass.
PASSES = {
    "before_claim": 4, "in_claim": 4, "after_claim": 4, "before_call": 20, "after_call": 20,
    "before_first_pass_note": 3, "after_first_pass_note": 3, "before_finish": 8, "in_finish": 8,
    "after_finish": 8,
}  # fmt: skip
# Seconds per call where more than a moment is needed: a renewal comes after a third of the lease.
LATENCIES = {"before_renewal": 0.15}


@pytest.fixture
def project(tmp_path: Path, db_url: str) -> Project:
    return ticket_project(tmp_path, db_url, RECORDS)


def run_command(vendor: RunningVendor) -> tuple[str, ...]:
    return run_tickets(vendor.base_url, "--quiet", input_file="tickets.jsonl")


def write_input(project: Project) -> tuple[set[str], int]:
    """Tickets, bad lines, one ticket twice and one with other content: the ids to be labelled, and lines."""
    rows: list[object] = [{"id": ticket.id, "text": ticket.text} for ticket in generate(RECORDS, seed=5)]
    ids = {f"ticket-{number:06}" for number in range(1, RECORDS + 1)}
    for place, line in zip((10, 25, 50), BAD_LINES, strict=True):
        rows.insert(place, line)
    rows.insert(40, rows[3])
    rows.insert(45, {"id": "ticket-000005", "text": "Other content under a known id."})
    project.write_records("tickets.jsonl", rows)
    return ids, len(rows)


async def kill_at(point: str, project: Project, vendor: RunningVendor) -> None:
    armed = f"{point}:{PASSES.get(point, 1)}"
    with project.started(*run_command(vendor), ASSAY_CRASH=armed) as process:
        if point == "while_draining":
            await vendor.until(lambda stats: stats.ended > 10 and stats.in_flight == CONCURRENCY)
            process.send_signal(signal.SIGTERM)
        code, told = await asyncio.to_thread(ended, process)
    assert code == -signal.SIGKILL, f"{armed} was not reached: exit {code}\n{told}"
    await vendor.until(lambda stats: stats.in_flight == 0)


def check_destinations(project: Project, ids: set[str], offsets: int) -> None:
    """Every line has exactly one destination, and all of them are committed."""
    settled = project.rows("SELECT record_id, state::text, input_version FROM assay.annotation_tasks")
    assert Counter(record_id for record_id, _, _ in settled) == Counter(ids)
    assert {state for _, state, _ in settled} <= {"auto_candidate", "review_pending", "quarantined"}
    assert project.one("SELECT count(*) FROM assay.results") == len(ids)
    isolated = Counter(code for (code,) in project.rows("SELECT error_code FROM assay.isolated_records"))
    assert isolated == {"input_schema_invalid": 3, "input_version_conflicts_with_content": 1}
    assert project.committed() == offsets


@pytest.mark.parametrize("point", WORKER_POINTS)
async def test_killed_at_a_point_and_run_again(point: str, project: Project) -> None:
    ids, offsets = write_input(project)
    async with practising(project, faults=FAULTS, latency=LATENCIES.get(point, 0.05)) as vendor:
        await kill_at(point, project, vendor)
        held = project.states().get("processing", 0)
        again = await asyncio.to_thread(project.finished, *run_command(vendor))
        assert again.returncode == 0, again.stderr
        await vendor.until(lambda stats: stats.in_flight == 0)
    check_destinations(project, ids, offsets)
    assert project.broken() == []
    found = books(project, project.folder / "journal.jsonl")
    assert found.discrepancies(most_lost=2 * CONCURRENCY) == []
    # Whatever was held when the process died was taken over, and is in the ledger as a call nobody heard of.
    assert list(found.ledger.values()).count("outcome_unknown") == held
    assert held > 0 or point in ("before_isolation", "after_isolation")


def has_called(calls: int, stats: Stats) -> bool:
    return stats.calls >= calls


async def test_killed_five_times_at_any_moment(tmp_path: Path, db_url: str) -> None:
    count, kills = 200, 5
    project = ticket_project(tmp_path, db_url, count)
    seed = random.SystemRandom().randrange(10**6)
    moments = random.Random(seed)
    async with practising(project) as vendor:
        for _ in range(kills):
            before = vendor.stats().calls
            calls, pause = before + moments.randrange(1, 30), moments.random() * 0.1
            with project.started(*run_tickets(vendor.base_url, "--quiet")) as process:
                await vendor.until(partial(has_called, calls))
                with pytest.raises(subprocess.TimeoutExpired):
                    await asyncio.to_thread(process.wait, pause)
                process.kill()
                code, told = await asyncio.to_thread(ended, process)
            assert code == -signal.SIGKILL, f"seed {seed}: {told}"
            await vendor.until(lambda stats: stats.in_flight == 0)
        again = await asyncio.to_thread(project.finished, *run_tickets(vendor.base_url, "--quiet"))
        assert again.returncode == 0, again.stderr
        calls = vendor.stats().calls
    assert project.broken() == [], f"seed {seed}"
    assert project.one("SELECT count(DISTINCT record_id) FROM assay.annotation_tasks") == count
    assert project.one("SELECT count(*) FROM assay.annotation_tasks WHERE state IN"
                       " ('auto_candidate', 'review_pending')") == count  # fmt: skip
    assert project.committed() == count
    found = books(project, project.folder / "journal.jsonl")
    assert found.discrepancies(most_lost=kills * 2 * CONCURRENCY) == [], f"seed {seed}"
    # A vendor without faults: one call each, and those that a kill cut off.
    assert calls == count + len(found.lost), f"seed {seed}"
    assert found.lost, f"seed {seed}: no kill met a call"


def test_the_books_are_really_compared() -> None:
    """Each way in which they could disagree is named."""
    good = {"a.1.1": "rejected", "a.1.2": "accepted", "b.2.1": "outcome_unknown", "c.2.1": "accepted"}
    attempts = frozenset({"a.1", "b.2", "c.2"})
    calls = Counter(good.keys())
    whole = Books(calls, good, attempts)
    assert whole.discrepancies(most_lost=1) == []
    assert whole.lost == {"b.2.1"}

    def told(journalled: Counter[str], ledger: dict[str, str], most_lost: int = 1) -> str:
        return json.dumps(Books(journalled, ledger, attempts).discrepancies(most_lost=most_lost))

    assert "a.1.1 was sent 2 times" in told(calls + Counter(["a.1.1"]), good)
    assert "x.9.1 belongs to no attempt" in told(calls + Counter(["x.9.1"]), good)
    assert "c.2.1 is not in the ledger" in told(calls, {k: v for k, v in good.items() if k != "c.2.1"})
    assert "never reached the vendor" in told(calls - Counter(["c.2.1"]), good)
    assert "1 calls were lost, at most 0" in told(calls, good, most_lost=0)
