"""A person mends the cause of dead letters and replays them: plan, one, a sample, the rest."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import pytest
from refund_replays import expected, final, new_schema, planned, refund_project, refunds, stands, versions

from assay.vendor.server import RunningVendor
from assay.vendor.settings import FaultShares
from labelling_project import Project, ended
from practice_runs import practising, run_tickets, ticket_project


def test_a_contract_that_accepts_a_cohort_resolves_it_without_a_call(tmp_path: Path, db_url: str) -> None:
    project = refund_project(tmp_path, db_url, 80)
    assert project.states() == {"auto_candidate": 20, "quarantined": 60}
    calls = project.one("SELECT count(*) FROM assay.calls")
    new_schema(project)
    plan = planned(project, "--code", "schema_validation_error")
    assert (plan["waiting"], plan["stage"], plan["expected"]["calls"]) == (60, "validate", 0)
    assert project.states() == {"auto_candidate": 20, "quarantined": 60}

    said = project.done("replay", "run", "1", "v2.py")
    assert "finished: 60 items; 40 succeeded, 20 failed" in said
    assert project.one("SELECT count(*) FROM assay.calls") == calls
    assert project.broken() == []
    served = dict(project.rows(
        "SELECT t.state::text, count(*) FROM assay.results r JOIN assay.annotation_tasks t USING (task_id)"
        " GROUP BY 1"
    ))  # fmt: skip
    assert served == {"auto_candidate": 60, "quarantined": 20}
    superseded = project.rows(
        "SELECT DISTINCT t.state::text, d.state, d.resolved_by, n.state::text FROM assay.annotation_tasks n"
        " JOIN assay.annotation_tasks t ON t.task_id = n.replay_of"
        " JOIN assay.dead_letters d ON d.task_id = t.task_id"
        " WHERE n.state = 'auto_candidate'"
    )
    assert superseded == [("superseded", "resolved", "replay:1", "auto_candidate")]
    revisions = project.rows(
        "SELECT e.revision, e.kind, count(*) FROM assay.known_events e"
        " JOIN assay.annotation_tasks t USING (task_id) WHERE t.replay_of IS NOT NULL"
        " AND t.state = 'auto_candidate' AND e.kind = 'completed' GROUP BY 1, 2"
    )
    assert revisions == [(2, "completed", 40)]
    report = json.loads(project.done("replay", "report", "1", "--json"))["report"]
    assert {(row["code"], row["state"], row["items"], row["calls"]) for row in report} == {
        ("schema_validation_error", "succeeded", 40, 0),
        ("schema_validation_error", "failed", 20, 0),
    }
    # Run twice it changes nothing.
    before = project.rows("SELECT task_id, state, moves FROM assay.annotation_tasks ORDER BY 1")
    project.done("replay", "run", "1", "v2.py")
    assert project.rows("SELECT task_id, state, moves FROM assay.annotation_tasks ORDER BY 1") == before


def test_without_kept_responses_the_model_is_asked_again(tmp_path: Path, db_url: str) -> None:
    project = refund_project(tmp_path, db_url, 40, days=0)
    assert project.one("SELECT count(*) FROM assay_vault.responses") == 0
    calls = project.one("SELECT count(*) FROM assay.calls")
    new_schema(project)
    assert planned(project)["stage"] == "call"
    project.done("replay", "run", "1", "v2.py")
    # 20 accepted at once, 10 refused in both passes.
    assert project.one("SELECT count(*) FROM assay.calls") - calls == 20 + 2 * 10
    assert project.broken() == []


def test_the_model_can_be_asked_again_where_responses_are_kept(tmp_path: Path, db_url: str) -> None:
    project = refund_project(tmp_path, db_url, 8)
    calls = project.one("SELECT count(*) FROM assay.calls")
    new_schema(project)
    plan = planned(project, "--call")
    assert (plan["stage"], plan["waiting"]) == ("call", 6)
    assert plan["expected"]["calls"] > 0
    project.done("replay", "run", "1", "v2.py")
    # 4 accepted at once, 2 refused in both passes.
    assert project.one("SELECT count(*) FROM assay.calls") - calls == 4 + 2 * 2
    assert project.broken() == []


def test_a_fix_that_mends_nothing_is_stopped_by_its_sample(tmp_path: Path, db_url: str) -> None:
    project = refund_project(tmp_path, db_url, 80)
    refunds(project, "v2.py", "billing", "other", "technical")
    new_schema(project)
    planned(project, "--sample", "8")
    stopped = project.finished("replay", "run", "1", "v2.py")
    assert stopped.returncode == 1
    assert "8 of 8 failed again" in stopped.stderr
    now = stands(project)
    assert (now["state"], now["failed"], now["barred"], now["waiting"]) == ("stopped", 8, 52, 0)
    assert now["barred_by"] == [{"reason": "replay_stopped", "items": 52}]
    assert project.broken() == []
    # Nothing of them is lost to another fix: all 60 are open, and the 8 know that they were tried.
    again = planned(project)
    assert again["waiting"] == 52
    assert {row["reason"]: row["items"] for row in again["barred_by"]} == {"annotated_by_newer_version": 8}


def test_a_paused_replay_lets_nothing_out(tmp_path: Path, db_url: str) -> None:
    project = refund_project(tmp_path, db_url, 40)
    new_schema(project)
    planned(project)
    project.done("replay", "pause", "1", "--reason", "the vendor is busy", "--by", "ann")
    refused = project.finished("replay", "run", "1", "v2.py")
    assert refused.returncode == 2
    assert "paused" in refused.stderr
    assert project.states()["quarantined"] == 30
    project.done("replay", "resume", "1", "--reason", "quiet again", "--by", "ann")
    project.done("replay", "run", "1", "v2.py")
    assert [each["kind"] for each in stands(project)["history"]] == [
        "planned",
        "paused",
        "resumed",
        "finished",
    ]
    assert project.broken() == []


def test_the_file_must_describe_the_version_that_the_fix_made(tmp_path: Path, db_url: str) -> None:
    project = refund_project(tmp_path, db_url, 8)
    new_schema(project)
    planned(project)
    refused = project.finished("replay", "run", "1", "v1.py")
    assert refused.returncode == 2
    assert "runs version" in refused.stderr
    assert project.states()["quarantined"] == 6


@pytest.fixture
def tickets(tmp_path: Path, db_url: str) -> Project:
    project = ticket_project(tmp_path, db_url, 24)
    text = (project.folder / "tickets.py").read_text().replace("max_attempts=20", "max_attempts=1")
    project.write("tickets.py", text)
    return project


async def test_what_a_vendor_refused_is_labelled_once_somebody_allows_it(tickets: Project) -> None:
    """The same annotation again: its attempts begin anew, its calls count on, and none is made twice."""
    async with practising(tickets, faults=FaultShares(refusal=1.0)) as vendor:
        await _label(tickets, vendor)
        assert tickets.states() == {"quarantined": 24}
        failed = tickets.one("SELECT count(*) FROM assay.calls")
        await vendor.change({"refusal": 0.0})
        (version,) = versions(tickets)
        tickets.done("fix", "add", "approval", "--version", version, "--description", "legal allows it")
        plan = json.loads(tickets.done("replay", "plan", "1", "--per-minute", "600", "--json"))
        assert (plan["waiting"], plan["stage"]) == (24, "call")
        said = await asyncio.to_thread(
            tickets.done, "replay", "run", "1", "tickets.py", "--base-url", vendor.base_url
        )
        assert "24 succeeded" in said
    answered = tickets.rows("SELECT task_id, count(*) FROM assay.calls WHERE outcome = 'accepted' GROUP BY 1")
    assert [count for _, count in answered] == [1] * 24
    assert tickets.one("SELECT count(*) FROM assay.calls") == failed + 24
    assert "quarantined" not in tickets.states()
    assert tickets.rows("SELECT DISTINCT state, resolved_by FROM assay.dead_letters") == [
        ("resolved", "replay:1")
    ]
    moves = tickets.rows("SELECT move::text FROM assay.task_history WHERE task_id = 1 ORDER BY history_id")
    assert [move for (move,) in moves][:6] == [
        "claim",
        "dead_letter",
        "replay",
        "park",
        "claim",
        moves[-1][0],
    ]
    assert tickets.broken() == []


async def _label(project: Project, vendor: RunningVendor) -> None:
    command = run_tickets(vendor.base_url, "--quiet")
    assert (await asyncio.to_thread(lambda: project.finished(*command))).returncode in (0, 3)


def test_a_record_that_keeps_coming_back_is_left_to_people(tmp_path: Path, db_url: str) -> None:
    project = refund_project(tmp_path, db_url, 8)
    (version,) = versions(project)
    project.done("fix", "add", "approval", "--version", version, "--description", "a try that cannot help")
    for number in range(1, 4):
        planned(project, "--sample", "1", "--stop-loss", "1")
        project.done("replay", "run", str(number), "v1.py")
        assert stands(project, number)["failed"] == 6
    plan = planned(project)
    assert plan["barred_by"] == [{"reason": "replay_limit", "items": 6}]
    assert project.rows("SELECT DISTINCT replay_count FROM assay.dead_letters WHERE state = 'open'") == [(3,)]
    assert project.broken() == []


def killed_often(project: Project, kills: int) -> None:
    """Run the replay, and kill it with SIGKILL whenever some more of it has settled."""
    settled = 0
    for _ in range(kills):
        with project.started("replay", "run", "1", "v2.py", "--quiet", "--lease", "2") as process:
            while process.poll() is None:
                now = project.one(
                    "SELECT count(*) FROM assay.replay_items WHERE state IN ('succeeded', 'failed')"
                )
                if now > settled:
                    process.send_signal(signal.SIGKILL)
                    settled = now
            code, told = ended(process)
        if code != -signal.SIGKILL:
            assert code == 0, told
            return


def replay_under_kills(project: Project, records: int, kills: int) -> None:
    calls = project.one("SELECT count(*) FROM assay.calls")
    new_schema(project)
    planned(project, "--sample", "10", "--stop-loss", "0.9")
    killed_often(project, kills)
    project.done("replay", "run", "1", "v2.py", "--quiet", "--lease", "2")
    assert stands(project)["state"] == "finished"
    assert final(project) == expected(records)
    # A take-over charges for a call that a dead worker may have made; nobody made any.
    made = project.one("SELECT count(*) FROM assay.calls WHERE outcome <> 'outcome_unknown'")
    assert made == calls
    assert project.broken() == []


@pytest.mark.timeout(300)
def test_a_replay_killed_many_times_ends_as_one_that_was_not(tmp_path: Path, db_url: str) -> None:
    replay_under_kills(refund_project(tmp_path, db_url, 1_200), 1_200, kills=4)


@pytest.mark.scale
def test_ten_thousand_dead_letters_replayed_under_twenty_kills(tmp_path: Path, db_url: str) -> None:
    replay_under_kills(refund_project(tmp_path, db_url, 13_334), 13_334, kills=20)
