"""`make demo` in a new clone: killed half-way, started again, nothing lost and nothing doubled."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest
from call_accounts import books
from newcomers import PEOPLE, Newcomer, command_line, family, newcomer

from labelling_project import Project

RECORDS, CONCURRENCY = 120, 8
DEMO = ("make", "demo", f"ARGS=--records {RECORDS} --concurrency {CONCURRENCY} --latency 0.2")
PATIENCE_SECONDS = 240


def kill_half_way(someone: Newcomer, journal: Path) -> None:
    with someone.started(*DEMO) as make:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not journal.exists() or len(journal.read_bytes().splitlines()) < RECORDS // 2:
            assert time.monotonic() < deadline
            try:
                make.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
            pytest.fail(f"the demo ended before its time:\n{make.communicate()[0]}")
        (demo,) = (pid for pid in family(make.pid) if "/bin/assay demo" in command_line(pid))
        os.kill(demo, signal.SIGKILL)
        printed, _ = make.communicate(timeout=60)
    # make ends with 2 and tells how its command ended: by signal 9, or as a shell in between reports that.
    assert make.returncode == 2, printed
    assert re.search(r"\bdemo\] (Killed|Error 137)", printed), printed


@pytest.mark.parametrize("name", PEOPLE)
def test_the_demo_survives_a_kill(name: str) -> None:
    with newcomer(name) as someone:
        assay = str(someone.clone / ".venv" / "bin" / "assay")
        journal = someone.clone / ".assay" / "demo" / "vendor.jsonl"
        try:
            kill_half_way(someone, journal)
            code, printed = someone.finished(*DEMO)
            assert code == 0, printed
            assert "invariants hold" in printed
            code, url = someone.finished(assay, "db", "url", "--reveal")
            assert code == 0, url
            check_everything(Project(someone.clone, url.split()[-1]), journal)
        finally:
            if Path(assay).exists():
                someone.finished(assay, "db", "stop", "--force")


def check_everything(project: Project, journal: Path) -> None:
    """Every ticket once, and every call that the vendor knows of in the ledger."""
    tasks = project.rows("SELECT record_id, state::text FROM assay.annotation_tasks")
    assert Counter(record_id for record_id, _ in tasks) == Counter(
        f"tickets-1-{RECORDS}.jsonl:{row}" for row in range(1, RECORDS + 1)
    )
    assert {state for _, state in tasks} <= {"auto_candidate", "review_pending", "quarantined"}
    assert project.committed() == RECORDS
    assert project.broken() == []
    assert project.one("SELECT count(*) FROM assay.task_history WHERE move = 'take_over'") > 0
    assert books(project, journal).discrepancies(most_lost=2 * CONCURRENCY) == []
