"""Four thousand calls in flight in one process: leases, memory, the loop, and the books."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from incidents import check_the_end
from resident_memory import Watched, watch

from labelling_project import Project
from practice_runs import run_tickets, ticket_project

IN_FLIGHT: Final = 4000
# Each needs a socket here and one at the vendor.
FILES: Final = 3 * IN_FLIGHT
LEASE_SECONDS: Final = 15.0
MOST_MIB: Final = 700.0


@dataclass(frozen=True, slots=True)
class Leg:
    """How many records, how long it may take (seconds), and when calls begin to take `slow` seconds.

    They take one second first, in which the window doubles. Two cores serve about a thousand calls a second,
    on both sides: so that four thousand are out, each has to take longer.
    """

    name: str
    records: int
    timeout: float
    slow_at: float
    slow: float = 4.0


@contextmanager
def many_files() -> Iterator[None]:
    """Children started in this block may open enough files."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[0] < FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, max(FILES, before[1])))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@contextmanager
def vendor_process(project: Project, leg: Leg) -> Iterator[str]:
    """A vendor in a process of its own that makes no faults; its base URL."""
    steps = [{"at": leg.slow_at, "latency": leg.slow}]
    project.write("timeline.json", json.dumps(steps))
    shares = ("rate-limit", "server-error", "prose", "string-confidence", "extra-field", "truncation")
    nothing = [part for name in shares for part in (f"--{name}-share", "0")]
    with project.started(
        "vendor", "--gold", "gold.jsonl", "--journal", "journal.jsonl", "--latency", "1",
        "--latency-distribution", "fixed", "--price", "1,4", "--set", "cached_share=0.25",
        "--timeline", "timeline.json", *nothing,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1]


def run_watched(project: Project, base_url: str, leg: Leg) -> Watched:
    """The run in a process of its own; the loop's figures go to `loop.json`."""
    labelling = run_tickets(base_url, "--quiet", "--lease", str(LEASE_SECONDS), concurrency=IN_FLIGHT)
    program = [sys.executable, str(Path(__file__).with_name("loop_lag.py")), "loop.json", *labelling]
    with subprocess.Popen(
        program, cwd=project.folder, env=project.environment({}), text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        try:
            return watch(process, every=0.5, timeout=leg.timeout)
        finally:
            if process.poll() is None:
                process.kill()


def writes(project: Project, table: str) -> dict[str, int]:
    """Rows written to a table of the schema `assay`, as PostgreSQL's statistics count them."""
    ((inserted, updated),) = project.rows(
        "SELECT n_tup_ins, n_tup_upd FROM pg_stat_user_tables WHERE schemaname = 'assay' AND relname = %s",
        table,
    )
    return {"inserted": inserted, "updated": updated}


@pytest.mark.parametrize(
    "leg",
    [
        Leg("short", records=15_000, timeout=150, slow_at=8),
        pytest.param(Leg("ten minutes", records=550_000, timeout=1800, slow_at=15), marks=pytest.mark.scale),
    ],
    ids=lambda leg: leg.name,
)
def test_four_thousand_in_flight(leg: Leg, tmp_path: Path, db_url: str) -> None:
    project = ticket_project(tmp_path, db_url, leg.records)
    with many_files(), vendor_process(project, leg) as base_url:
        ended = run_watched(project, base_url, leg)
        with urllib.request.urlopen(base_url.removesuffix("/v1") + "/practice/stats") as reply:
            stats = json.load(reply)
    assert ended.code == 0, ended.told[-2000:]
    renewals = writes(project, "leases")
    figures = {
        "leg": leg.name, "records": leg.records, "seconds": round(ended.seconds, 1),
        "peak_in_flight": stats["peak_in_flight"], "resident_mib": round(max(ended.samples), 1),
        "loop_lag_ms": json.loads((tmp_path / "loop.json").read_text()), "lease_rows": renewals,
    }  # fmt: skip
    (tmp_path / "figures.json").write_text(json.dumps(figures, indent=2))
    print(json.dumps(figures))
    assert stats["peak_in_flight"] >= IN_FLIGHT
    assert max(ended.samples) < MOST_MIB
    check_leases(project, leg, renewals, ended.seconds)
    found = check_the_end(project, leg.records)
    # Each record was called once: no lease was lost, none ran out.
    assert stats["calls"] == leg.records == len(found.ledger)


def check_leases(project: Project, leg: Leg, written: dict[str, int], seconds: float) -> None:
    """One lease, renewed by writing its one row; tasks are written by claims and finishes alone."""
    assert project.one("SELECT count(*) FROM assay.task_history WHERE move = 'take_over'") == 0
    assert project.one("SELECT count(*) FROM assay.calls WHERE outcome <> 'accepted'") == 0
    assert written["inserted"] == 1
    # Three renewals per lease, the release at the end, and one to spare.
    assert written["updated"] <= seconds / (LEASE_SECONDS / 3) + 2
    # And it is renewed: once per lease at the least, however busy the process.
    assert written["updated"] >= seconds / LEASE_SECONDS - 1
    assert writes(project, "annotation_tasks") == {"inserted": leg.records, "updated": leg.records}
