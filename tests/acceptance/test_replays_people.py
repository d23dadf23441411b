"""Replays beside other work: two at once, workers that run already; what people see of them, what not."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

import psycopg
import pytest
from psycopg import sql
from refund_replays import (
    answers,
    expected,
    final,
    new_schema,
    planned,
    refund_project,
    refunds,
    stands,
    versions,
)

from assay.adapters.embedded.server import EmbeddedServer
from assay.adapters.postgres.replay_release import Released, ReplayRelease
from assay.adapters.postgres.session import make_pool
from assay.adapters.vault import Vault, load_kek
from assay.domain.identity import InputKey
from assay.domain.replays import Counts, Step
from assay.domain.sealing import response_aad
from assay.domain.work import Offer
from labelling_project import Project, ended

TOKEN: Final = "Zq7PlantedTokenXw"
# In the open on purpose: what looks for the token would find it.
CONTROL: Final = "Zq7ControlTokenXw"


@pytest.mark.timeout(300)
def test_two_runs_of_a_replay_at_once_let_nothing_out_twice(tmp_path: Path, db_url: str) -> None:
    project = refund_project(tmp_path, db_url, 400)
    calls = project.one("SELECT count(*) FROM assay.calls")
    new_schema(project)
    planned(project, "--sample", "10")
    command = ("replay", "run", "1", "v2.py", "--quiet")
    with project.started(*command) as one, project.started(*command) as other:
        assert [ended(process)[0] for process in (one, other)] == [0, 0]
    now = stands(project)
    assert (now["state"], now["succeeded"], now["failed"]) == ("finished", 200, 100)
    assert [each["kind"] for each in now["history"]] == ["planned", "started", "finished"]
    # Each was let out once, and its answer counted once: created and parked, claimed, finished.
    moves = project.rows(
        "SELECT string_agg(h.move::text, ' ' ORDER BY h.history_id), count(DISTINCT i.place)"
        " FROM assay.replay_items i JOIN assay.task_history h ON h.task_id = i.runs_task_id"
        " GROUP BY i.runs_task_id"
    )
    assert {told.rsplit(" ", 1)[0] for told, _ in moves} == {"claim park claim"}
    assert {items for _, items in moves} == {1}
    assert project.one("SELECT count(*) FROM assay.calls") == calls
    assert final(project) == expected(400)
    assert project.broken() == []


@pytest.mark.timeout(300)
def test_a_worker_that_runs_already_takes_up_what_is_let_out(tmp_path: Path, db_url: str) -> None:
    """The one who lets items out need not work on them."""
    project = refund_project(tmp_path, db_url, 40)
    (version,) = versions(project)
    answers(project, "answers.csv", ["billing"] * 40)
    project.done(
        "fix", "add", "approval", "--version", version, "--description", "may be billing", "--by", "a"
    )
    planned(project, "--sample", "5")
    follow = ("run", "v1.py", "--input", "in.jsonl", "--follow", "--quiet")
    with project.started(*follow) as worker:
        _, done = asyncio.run(let_out(project, lambda: worker.poll() is None))
        assert done == Counts(succeeded=30)
        worker.terminate()
        code, told = ended(worker)
    assert code in (0, 130), told
    actors = project.rows(
        "SELECT DISTINCT h.move::text, h.actor = 'ann' FROM assay.task_history h"
        " JOIN assay.replay_items i ON i.runs_task_id = h.task_id"
        " JOIN assay.task_history r ON r.task_id = h.task_id AND r.move = 'replay'"
        " WHERE h.history_id >= r.history_id"
    )
    assert set(actors) == {("replay", True), ("park", True), ("claim", False), ("accept", False)}
    assert project.states() == {"auto_candidate": 40}
    assert project.broken() == []


async def let_out(project: Project, lives: Callable[[], bool]) -> tuple[Step, Counts]:
    """Page after page, with no work of our own, while the worker lives."""
    pool = make_pool(project.database_url, size=1)
    await pool.open()
    try:
        vault = Vault(load_kek({}, project.folder / ".assay" / "vault.key"))
        release = ReplayRelease(
            pool, vault, version_id=1, actor="ann", draw=lambda record: Offer(record, 0.0, False)
        )
        page: Released | None = None
        while page is None or page.step is not Step.FINISH:
            assert lives(), "the worker is gone"
            page = await release.page(1)
        return page.step, page.counts
    finally:
        await pool.close()


def page_of(project: Project, *command: str) -> str:
    return " ".join(project.done(*command, COLUMNS="300").split())


def test_a_dead_letter_tells_which_replays_it_was_in_and_a_record_its_moves(
    tmp_path: Path, db_url: str
) -> None:
    project = refund_project(tmp_path, db_url, 4)
    (version,) = versions(project)
    project.done("fix", "add", "approval", "--version", version, "--description", "allowed", "--by", "ann")
    planned(project, "--stop-loss", "1")
    project.done("replay", "run", "1", "v1.py", "--quiet")
    page = page_of(project, "explain", "r00001")
    assert "replay:1: replay 1 let it out; `assay replay status 1` says with which fix" in page
    assert "replay: a replay let it out, for the next worker of its version" in page

    project.done("pipeline", "register", "v2.py")
    old, new = versions(project)
    fix = ("fix", "add", "new_schema", "--version", old, "--to", new, "--description", "refund is one")
    project.done(*fix, "--by", "ann")
    json.loads(project.done("replay", "plan", "2", "--json"))
    project.done("replay", "run", "2", "v2.py", "--quiet")
    letters = {
        (record, state): number
        for number, record, state in project.rows(
            "SELECT d.dead_letter_id, t.record_id, d.state FROM assay.dead_letters d"
            " JOIN assay.annotation_tasks t USING (task_id) ORDER BY 1 DESC"
        )
    }
    mended = page_of(project, "dlq", "show", str(letters["r00001", "resolved"]))
    assert "replay 1, fix 1 (approval, allowed): failed: schema_validation_error" in mended
    assert "replay 2, fix 2 (new_schema, refund is one): succeeded" in mended
    assert "resolved by replay:2" in mended
    ids = [number for (number,) in project.rows(
        "SELECT d.dead_letter_id FROM assay.dead_letters d JOIN assay.annotation_tasks t USING (task_id)"
        " WHERE t.record_id = 'r00000' ORDER BY 1")]  # fmt: skip
    refused_again = page_of(project, "dlq", "show", str(ids[1]))
    assert f"it came out of this replay of dead letter {ids[0]}" in refused_again
    told = json.loads(project.done("dlq", "show", str(ids[0]), "--json"))["replays"]
    assert [(row["replay"], row["state"]) for row in told] == [(1, "failed"), (2, "failed")]
    superseded = page_of(project, "explain", "r00001")
    assert "a newer version of the pipeline annotated it in a replay" in superseded


@pytest.fixture
def planted(tmp_path: Path, db_url: str) -> Project:
    """A replayed project: the token stands in every text and in every response; logs tell all they can."""
    project = Project(tmp_path, db_url)
    project.write_records(
        "in.jsonl", [{"record_id": f"r{number:05}", "text": f"{number} {TOKEN}"} for number in range(8)]
    )
    refunds(project, "v1.py", "billing", "other")
    refunds(project, "v2.py", "billing", "other", "refund")
    # Half are refused again: what they answer is the token.
    answers(project, "answers.csv", ["refund", TOKEN] * 4)

    def noisy(*command: str) -> subprocess.CompletedProcess[str]:
        return project.finished(*command, ASSAY_LOG="json", ASSAY_LOG_LEVEL="debug")

    logs = [noisy("run", "v1.py", "--input", "in.jsonl")]
    project.done("pipeline", "register", "v2.py")
    old, new = versions(project)
    fix = ("fix", "add", "new_schema", "--version", old, "--to", new, "--description", CONTROL)
    commands: tuple[tuple[str, ...], ...] = (
        (*fix, "--by", "ann"), ("fix", "list"), ("fix", "list", "--json"), ("replay", "plan", "1"),
        ("replay", "run", "1", "v2.py"), ("replay", "status", "1"), ("replay", "status", "1", "--json"),
        ("replay", "report", "1"), ("replay", "report", "1", "--json"), ("replay", "list"),
        ("replay", "list", "--json"), ("dlq", "show", "1"), ("dlq", "show", "2", "--json"),
        ("explain", "r00000"), ("explain", "r00001", "--json"), ("status",), ("audit", "--deep"),
    )  # fmt: skip
    logs += [noisy(*command) for command in commands]
    assert [done.returncode for done in logs] == [0] * len(logs), [done.stderr for done in logs]
    project.write("told.txt", "\n".join(done.stdout + done.stderr for done in logs))
    return project


def in_the_open(project: Project, word: str) -> set[str]:
    """The tables that hold a word outside of sealed bytes."""
    forms = (word, word.encode().hex())
    with psycopg.connect(project.database_url) as connection:
        tables = connection.execute(
            "SELECT table_schema, table_name FROM information_schema.tables"
            " WHERE table_schema IN ('assay', 'assay_vault', 'public')"
        ).fetchall()
        return {
            name
            for schema, name in tables
            for (row,) in connection.execute(
                sql.SQL("SELECT t::text FROM {} t").format(sql.Identifier(schema, name))
            )
            if any(form in row for form in forms)
        }


def opened(project: Project) -> list[bytes]:
    """What the kept responses say, with the key."""
    vault = Vault(load_kek({}, project.folder / ".assay" / "vault.key"))
    return [
        vault.open(
            vault.unwrap(wrapped, kek), ciphertext,
            response_aad(InputKey(record, version), sha256, attempt.bytes),
        )
        for record, version, sha256, attempt, ciphertext, wrapped, kek in project.rows(
            "SELECT t.record_id, t.input_version, t.input_sha256, x.attempt_id, x.ciphertext, k.wrapped_key,"
            " k.kek_id FROM assay_vault.responses x"
            " JOIN assay.annotation_tasks t USING (task_id)"
            " JOIN assay_vault.texts k ON k.text_ref = t.encrypted_text_ref"
        )
    ]  # fmt: skip


def test_a_kept_response_is_nowhere_in_the_open(planted: Project) -> None:
    now = stands(planted)
    assert (now["succeeded"], now["failed"]) == (4, 4)
    kept = opened(planted)
    assert len(kept) >= 12
    assert sum(TOKEN.encode() in each for each in kept) >= 8
    assert in_the_open(planted, TOKEN) == set()
    assert in_the_open(planted, CONTROL) == {"fixes"}
    told = (planted.folder / "told.txt").read_text("utf-8")
    assert TOKEN not in told
    assert CONTROL in told


def test_the_servers_log_does_not_have_it_either(planted: Project) -> None:
    if "ASSAY_TEST_DATABASE_URL" in os.environ:
        return
    log = EmbeddedServer(Path(os.environ["ASSAY_TEST_SERVER"])).status().log
    assert log is not None
    told = log.read_text("utf-8", "replace")
    assert told
    assert TOKEN not in told
