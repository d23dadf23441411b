"""Whole demos with a real model: its own failures, a kill in the middle, clean books."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

import pytest
from local_runs import PATIENCE_SECONDS, LocalDemo, until

pytestmark = pytest.mark.local_model

FORMAT_CODES = {
    "response_too_large", "response_empty", "response_truncated", "json_invalid", "json_duplicate_key",
    "schema_extra_field", "schema_type_error", "schema_validation_error",
}  # fmt: skip
PASSES = "SELECT pass_number, outcome, code FROM assay.calls"
FIRST_AGAINST_OUTPUT = """
    SELECT count(*) FROM assay.calls c JOIN assay.annotation_outputs o USING (task_id, attempt_id)
    WHERE c.pass_number = 1 AND c.outcome = 'rejected' AND c.code IS DISTINCT FROM o.first_pass_code
"""


@pytest.fixture
def demo(tmp_path: Path, db_url: str) -> LocalDemo:
    return LocalDemo(tmp_path, db_url)


def test_held_to_the_schema(demo: LocalDemo) -> None:
    shown = demo.done("--records", "8")
    states = demo.states()
    assert sum(states.values()) == 8
    assert set(states) <= {"auto_candidate", "review_pending", "quarantined"}
    passes = Counter(demo.rows(PASSES))
    assert sum(count for (number, _, _), count in passes.items() if number == 1) == 8
    # It may ramble until the limit cuts it; what it finishes fits.
    assert passes[1, "accepted", None] >= 4
    assert {code for _, outcome, code in passes if outcome == "rejected"} <= FORMAT_CODES
    assert "seconds per call, median" in shown
    assert "of 8 gold records" in shown
    assert "invariants hold" in shown
    assert demo.broken() == []


def test_free_to_write_what_it_likes(demo: LocalDemo) -> None:
    shown = demo.done("--records", "6", "--unconstrained")
    passes = Counter(demo.rows(PASSES))
    refused = {code: count for (number, outcome, code), count in passes.items()
               if number == 1 and outcome == "rejected"}  # fmt: skip
    assert sum(refused.values()) >= 3
    assert set(refused) <= FORMAT_CODES
    assert all(f"  {code}" in shown for code in refused)
    # Each refused first pass got one correction, and the code of the first is kept with the outcome.
    assert sum(count for (number, _, _), count in passes.items() if number == 2) == sum(refused.values())
    assert demo.rows(FIRST_AGAINST_OUTPUT) == [(0,)]
    assert sum(demo.states().values()) == 6
    assert demo.broken() == []


def test_killed_and_started_again(demo: LocalDemo) -> None:
    options = ("--records", "10", "--concurrency", "2")
    with demo.started(*options) as process:
        until(lambda: _under_way(demo, process.poll()), "labels, with calls in flight")
        model = _child(process.pid)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == -9
    # The model's standard input closed with the demo that held it.
    until(lambda: not _runs(model), "the local model to end")
    kept = dict(demo.rows("SELECT task_id, finished_at FROM assay.annotation_outputs"))
    assert 0 < len(kept) < 10

    shown = demo.done(*options)
    assert "done before" in shown
    assert sum(demo.states().values()) == 10
    assert "processing" not in demo.states()
    after = dict(demo.rows("SELECT task_id, finished_at FROM assay.annotation_outputs"))
    assert len(after) == 10
    assert {task: after[task] for task in kept} == kept
    # What was claimed when the kill came is in the ledger as calls that nobody knows the outcome of.
    lost = {
        task for (task,) in demo.rows("SELECT task_id FROM assay.calls WHERE outcome = 'outcome_unknown'")
    }
    assert lost
    assert lost.isdisjoint(kept)
    assert demo.broken() == []


def _under_way(demo: LocalDemo, code: int | None) -> bool:
    assert code is None, f"the demo ended with {code} before it was killed"
    states = demo.states()
    settled = sum(count for state, count in states.items() if state != "processing")
    return settled >= 2 and states.get("processing", 0) > 0


def _child(parent: int) -> int:
    """The server that a demo started."""
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
            words = (entry.parent / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while we looked
        if int(fields[1]) == parent and b"assay.local_model" in words:
            return int(entry.parent.name)
    raise AssertionError("the demo has no local model")


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{process}/cmdline").read_bytes() != b""
