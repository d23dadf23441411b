"""`assay drill`: what the script lets into training and assay does not, and a drill that must fail."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

from assay.adapters.embedded.server import EmbeddedServer
from assay.cli.drill_evidence import collect
from assay.drill.evidence import Audit, Downstream, Evidence, VendorCall
from assay.drill.ledgers import CANDIDATE
from assay.drill.legacy import label_of
from assay.drill.verdict import what_broke
from labelling_project import ASSAY

TICKETS: Final = 300
PATIENCE: Final = 240


def drill(*options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*ASSAY, "drill", *options], text=True, capture_output=True, check=False, timeout=PATIENCE,
        env=os.environ | environment,
    )  # fmt: skip


@pytest.fixture(scope="module")
def kept() -> Iterator[dict[str, Any]]:
    """The ledgers of one drill, whose folder stays as long as these tests."""
    # Another database or another key of the caller's must be nothing to the drill.
    others = {"ASSAY_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none", "ASSAY_MODEL_API_KEY": "mine"}
    done = drill("--tickets", str(TICKETS), "--speed", "300", "--keep", "--json", **others)
    assert done.returncode == 0, done.stderr
    ledgers = json.loads(done.stdout)
    yield ledgers
    folder = Path(ledgers["folder"])
    EmbeddedServer(folder).remove()
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def url(kept: dict[str, Any]) -> Iterator[str]:
    with EmbeddedServer(Path(kept["folder"])).acquire() as lease:
        yield lease.url


@pytest.fixture(scope="module")
def found(kept: dict[str, Any], url: str) -> Evidence:
    return collect(Path(kept["folder"]), url)


def test_the_script_let_in_what_assay_did_not(kept: dict[str, Any]) -> None:
    script, ours, account = kept["script"], kept["assay"], kept["account"]
    assert (kept["tickets"], kept["replayed"] > 0) == (TICKETS, True)
    for bad in ("out_of_prose", "coerced", "fabricated", "duplicates"):
        assert script[bad] > 0, bad
        assert ours[bad] == 0, bad
    assert script["paid_again"] >= script["duplicates"] // 2 > 0
    assert script["wrong"] / script["labels"] > ours["wrong"] / ours["labels"]
    assert ours["labels"] == account["states"][CANDIDATE] > 0
    assert sum(account["states"].values()) == TICKETS
    assert {"json_invalid", "schema_type_error"} <= account["first_pass_failures"].keys()
    assert 0 < account["corrected"] < account["corrections"]
    assert account["states"]["quarantined"] == sum(account["quarantined_by_code"].values()) > 0
    assert account["duplicates_absorbed"] == kept["replayed"]
    assert account["events"] == account["published"] == account["distinct_delivered"] == account["applied"]
    assert account["audit"]["broken"] == kept["broken"] == []
    assert kept["clean"] is True


def test_the_script_wrote_what_the_ledger_says(kept: dict[str, Any]) -> None:
    lines = (Path(kept["folder"]) / "training.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert len(rows) == kept["script"]["labels"]
    assert len(rows) - len({row["id"] for row in rows}) == kept["script"]["duplicates"]
    assert all(isinstance(row["confidence"], float) and row["category"] for row in rows)


def test_a_kept_drill_is_counted_again_to_the_same_figures(kept: dict[str, Any], url: str) -> None:
    again = drill("--recount", kept["folder"], "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout) == kept


def test_a_label_changed_behind_the_drills_back_fails_it(kept: dict[str, Any], url: str) -> None:
    """The label of one candidate is another one: told by gold and journal, and by the consumer."""
    with psycopg.connect(url, autocommit=True) as db:
        before = db.execute(
            "SELECT task_id, label_json"
            " FROM assay.annotation_outputs JOIN assay.annotation_tasks USING (task_id)"
            " WHERE state = 'auto_candidate' AND label_json ->> 'category' = 'billing' ORDER BY 1 LIMIT 1"
        ).fetchone()
        assert before is not None
        change = "UPDATE assay.annotation_outputs SET label_json = %s WHERE task_id = %s"
        db.execute("SET session_replication_role = replica")
        db.execute(change, (json.dumps({**before[1], "category": "shipping"}), before[0]))
        try:
            done = drill("--recount", kept["folder"])
        finally:
            db.execute(change, (json.dumps(before[1]), before[0]))
    assert done.returncode == 1
    assert "1 candidates with another label than the vendor gave: ticket-" in done.stderr
    assert "1 records of which the consumer believes something else: ticket-" in done.stderr


def test_a_result_that_is_gone_fails_it(kept: dict[str, Any], url: str) -> None:
    with psycopg.connect(url) as db:
        db.execute("SET session_replication_role = replica")
        db.execute("DELETE FROM assay.results WHERE record_id = 'ticket-000007'")
        db.commit()
        try:
            done = drill("--recount", kept["folder"], "--json")
        finally:
            db.execute(
                "INSERT INTO assay.results"
                " SELECT v.name, t.record_id, t.task_id, t.input_version, t.version_id, 1, t.last_moved_at"
                " FROM assay.annotation_tasks t JOIN assay.pipeline_versions v USING (version_id)"
                " WHERE t.record_id = 'ticket-000007'"
            )
            db.commit()
    assert done.returncode == 1
    told = json.loads(done.stdout)
    assert told["clean"] is False
    assert "1 annotations without exactly one result: ticket-000007" in told["broken"]
    assert told["account"]["audit"]["broken"]


def _without_a_settled_task(found: Evidence) -> Evidence:
    return replace(found, tasks=found.tasks[1:])


def _finished_twice(found: Evidence) -> Evidence:
    return replace(found, tasks=[replace(found.tasks[0], finishes=2), *found.tasks[1:]])


def _annotated_twice(found: Evidence) -> Evidence:
    return replace(found, tasks=[*found.tasks, replace(found.tasks[0], task_id=10**6)])


def _message_without_a_place(found: Evidence) -> Evidence:
    return replace(found, produced=[*found.produced, found.produced[0]])


def _candidate_out_of_prose(found: Evidence) -> Evidence:
    used = next(task.request_id for task in found.tasks if task.state == CANDIDATE)

    def marked(call: VendorCall) -> VendorCall:
        return replace(call, fault="prose_prefix") if call.request_id == used else call

    return replace(found, assay_calls=[marked(call) for call in found.assay_calls])


def _call_outside_of_the_ledger(found: Evidence) -> Evidence:
    return replace(found, ledger=found.ledger[1:])


def _call_sent_twice(found: Evidence) -> Evidence:
    return replace(found, assay_calls=[*found.assay_calls, found.assay_calls[0]])


def _event_applied_twice(found: Evidence) -> Evidence:
    told = found.downstream
    return replace(found, downstream=replace(told, deliveries=[*told.deliveries, told.deliveries[0]]))


def _event_that_never_came(found: Evidence) -> Evidence:
    told = found.downstream
    return replace(found, downstream=Downstream(told.deliveries[1:], told.labels))


def _event_not_published(found: Evidence) -> Evidence:
    return replace(found, events={**found.events, next(iter(found.events)): False})


def _broken_invariant(found: Evidence) -> Evidence:
    return replace(found, audit=Audit(1, ["one_invariant broken 1 times"]))


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (_without_a_settled_task, "1 records without a settled result"),
        (_finished_twice, "1 annotations not finished exactly once"),
        (_annotated_twice, "1 records annotated twice"),
        (_message_without_a_place, "messages were produced"),
        (_candidate_out_of_prose, "1 candidates from a reply that was no answer"),
        (_call_outside_of_the_ledger, "1 calls of the vendor's journal that the ledger lacks"),
        (_call_sent_twice, "1 calls sent more than once"),
        (_event_applied_twice, "1 events applied twice"),
        (_event_that_never_came, "1 events that never came"),
        (_event_not_published, "1 events not published"),
        (_broken_invariant, "the audit finds one_invariant"),
    ],
)
def test_each_promise_that_is_not_kept_is_named(
    found: Evidence, spoil: Callable[[Evidence], Evidence], complaint: str
) -> None:
    assert what_broke(found) == []
    assert any(complaint in sentence for sentence in what_broke(spoil(found)))


@pytest.mark.parametrize(
    ("said", "label"),
    [
        ('Here is the JSON: {"category": "billing", "confidence": 0.9}', ("billing", 0.9)),
        ('{"category": "billing", "confidence": "0.9"}', ("billing", 0.9)),
        ('{"category": "billing", "confidence": "high"}', ("billing", 0.9)),
        ('{"category": "billing", "confi', ("other", 0.5)),
        ('{"error": {"message": "The server had an error."}}', ("other", 0.5)),
        ("I can't assist with classifying this text.", ("other", 0.5)),
        ("", ("other", 0.5)),
    ],
)
def test_the_script_makes_a_label_of_anything(said: str, label: tuple[str, float]) -> None:
    assert label_of(said) == label


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_a_drill_that_is_ended_ends_all_it_started(number: int, code: int, tmp_path: Path) -> None:
    """While both sides work. Interrupted it removes its folder as well, which nobody can do when killed."""
    with subprocess.Popen(
        [*ASSAY, "drill", "--tickets", "2000", "--speed", "60"], text=True, stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL, env=os.environ | {"TMPDIR": str(tmp_path)},
    ) as process:  # fmt: skip
        try:
            assert process.stderr is not None
            assert any("09:00 an ordinary morning" in line for line in process.stderr)
            started = _working_in(tmp_path)
            process.send_signal(number)
            assert process.wait(PATIENCE) == code
        finally:
            process.kill()
    assert len(started) == len(("vendor", "script", "worker-1", "worker-2", "publisher", "consumer"))
    deadline = time.monotonic() + 45
    while _working_in(tmp_path):
        assert time.monotonic() < deadline, "processes are left behind"
    left = list(tmp_path.iterdir())
    assert len(left) == (number == signal.SIGKILL)
    for folder in left:
        EmbeddedServer(folder).remove()


def _working_in(folder: Path) -> list[int]:
    """Processes whose working folder is in there, or was before it went."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if str((entry / "cwd").readlink()).startswith(f"{folder}/assay-drill-"):
                found.append(int(entry.name))
        except OSError:
            continue  # ended, or not ours to look at
    return found


def test_a_folder_that_is_no_drill_is_refused(tmp_path: Path) -> None:
    done = drill("--recount", str(tmp_path))
    assert done.returncode == 2
    assert (
        done.stderr == f"assay: {tmp_path} is no kept drill: `assay drill --keep` says where it leaves one.\n"
    )
    assert not (tmp_path / ".assay").exists()
