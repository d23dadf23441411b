"""What a person does about input that was no record, from the list to the label."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from assay.vendor.server import RunningVendor
from labelling_project import ASSAY, Project
from practice_runs import practising, run_tickets, ticket_project

TICKETS = 30
SECRET = "planted-7f3a"
BROKEN = '{"id": "broken", "text": "' + SECRET


@pytest.fixture
def project(tmp_path: Path, db_url: str) -> Project:
    return ticket_project(tmp_path, db_url, TICKETS)


def gold(project: Project) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (project.folder / "gold.jsonl").read_text().splitlines()]


async def run(project: Project, vendor: RunningVendor, name: str, *options: str) -> None:
    await done_by(project, *run_tickets(vendor.base_url, *options, input_file=name))


async def done_by(project: Project, *command: str) -> str:
    """Run a command that must succeed beside the vendor."""
    return await asyncio.to_thread(lambda: project.done(*command))


def listed(project: Project, *options: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(project.done("isolated", "list", "--json", *options))
    return found


def fix(project: Project, number: int, *options: str) -> subprocess.CompletedProcess[str]:
    return project.finished("isolated", "fix", str(number), "--pipeline", "tickets.py", "--reason",
                            "the export cut it", *options)  # fmt: skip


async def test_a_broken_line_is_looked_at_fixed_and_labelled(project: Project) -> None:
    records = [{"id": each["id"], "text": each["text"]} for each in gold(project)[:20]]
    project.write_records("in.jsonl", [*records, BROKEN])
    async with practising(project) as vendor:
        await run(project, vendor, "in.jsonl")
        (row,) = await asyncio.to_thread(listed, project)
        number = row["isolated_id"]
        assert (row["source"], row["line"], row["error_type"]) == ("in.jsonl", 21, "not_json")
        page = await done_by(project, "isolated", "show", str(number))
        assert SECRET not in page + json.dumps(row)
        raw = await done_by(project, "isolated", "show", str(number), "--raw", "--by", "ann")
        assert raw == BROKEN
        await done_by(project, "isolated", "show", str(number), "--raw", "-o", "raw.txt", "--reason", "why?")
        assert (project.folder / "raw.txt").read_text() == BROKEN
        await done_by(project, "isolated", "assign", str(number), "--owner", "bob")
        project.write("bad.json", '{"id": "broken", "txt": 1}')
        refused = await asyncio.to_thread(fix, project, number, "--file", "bad.json")
        assert (refused.returncode, "missing_field at /text" in refused.stderr) == (2, True)
        project.write("good.json", json.dumps({"id": "broken", "text": gold(project)[25]["text"]}))
        done = await asyncio.to_thread(fix, project, number, "--file", "good.json", "--author", "bob")
        assert "is record broken version 1 now" in done.stdout
        again = await asyncio.to_thread(fix, project, number, "--file", "good.json")
        assert (again.returncode, "fixed like this already" in again.stdout) == (0, True)
        assert "by bob: it is record broken version 1 now" in again.stdout
        project.write("other.json", json.dumps({"id": "broken", "text": gold(project)[26]["text"]}))
        project.write("named.json", json.dumps({"id": "x", "text": gold(project)[25]["text"]}))
        for name in ("other.json", "named.json", "bad.json"):
            differs = await asyncio.to_thread(fix, project, number, "--file", name)
            assert (differs.returncode, differs.stdout) == (2, "")
            assert "Another fix" in differs.stderr
            assert "by bob: it is record broken version 1 now" in differs.stderr
        assert project.states()["retry_scheduled"] == 1
        await run(project, vendor, "in.jsonl")
        assert vendor.stats().calls == 21
    assert "retry_scheduled" not in project.states()
    assert project.rows("SELECT kind, actor, reason FROM assay.isolated_acts ORDER BY act_id")[-1] == (
        "fixed", "bob", "the export cut it",
    )  # fmt: skip
    page = " ".join(project.done("isolated", "show", str(number)).split())
    assert "fixed (corrected_bytes)" in page
    assert "it is record broken version 1 now" in page
    assert "tickets version" in page
    assert "fixed (corrected_bytes)" in project.done("explain", "broken")
    assert project.broken() == []


async def test_a_conflict_gets_a_version_of_its_own_or_is_closed(project: Project) -> None:
    first, second, third = (each["text"] for each in gold(project)[:3])
    project.write_records("in.jsonl", [{"id": "a", "text": text} for text in (first, second, third)])
    async with practising(project) as vendor:
        await run(project, vendor, "in.jsonl", "--concurrency", "1")
        (one, other) = await asyncio.to_thread(listed, project, "--error-type", "content_differs")
        refused = await asyncio.to_thread(fix, project, one["isolated_id"])
        assert "--input-version N" in refused.stderr
        refused = await asyncio.to_thread(fix, project, one["isolated_id"], "--input-version", "1")
        assert (refused.returncode, "has other content already" in refused.stderr) == (2, True)
        done = await asyncio.to_thread(fix, project, one["isolated_id"], "--input-version", "2", "--json")
        assert json.loads(done.stdout)["outcome"] == "fixed"
        told = await done_by(
            project, "isolated", "close", str(other["isolated_id"]), "--reason", "sent by mistake"
        )
        assert "is closed" in told
        late = await asyncio.to_thread(fix, project, other["isolated_id"], "--input-version", "3")
        assert (late.returncode, "was closed, " in late.stderr) == (2, True)
        await run(project, vendor, "in.jsonl")
    assert project.rows("SELECT input_version FROM assay.results") == [(2,)]
    assert listed(project) == []
    assert [row["state"] for row in listed(project, "--state", "any")] == ["resolved", "closed"]
    assert project.broken() == []


async def test_a_wrong_mapping_is_mended_for_many_at_once(project: Project) -> None:
    records = [{"id": each["id"], "body": each["text"]} for each in gold(project)[:25]]
    project.write_records("in.jsonl", [*records, "no json"])
    replay = ("isolated", "replay", "--pipeline", "tickets.py", "--reason", "the text is in body")
    async with practising(project) as vendor:
        await run(project, vendor, "in.jsonl", "--max-invalid", "1")
        assert len(listed(project, "--limit", "10")) == 10
        unnamed = await asyncio.to_thread(lambda: project.finished(*replay, "--run"))
        assert (unnamed.returncode, "names what was mended" in unnamed.stderr) == (2, True)
        told = await done_by(project, *replay, "--map", "text=body")
        assert told == (
            "25 records would go to tickets; as before: 1 malformed: not_json. Nothing was changed; --run "
            "does it.\n"
        )
        assert project.one("SELECT count(*) FROM assay.inputs") == 0
        some = await done_by(project, *replay, "--map", "text=body", "--limit", "5", "--run")
        assert some.startswith("5 records for tickets")
        rest = await done_by(project, *replay, "--map", "text=body", "--run", "--json")
        assert json.loads(rest)["outcomes"] == {"fixed": 20, "malformed: not_json": 1}
        again = await done_by(project, *replay, "--map", "text=body", "--run")
        assert again.startswith("0 records for tickets")
        await run(project, vendor, "in.jsonl")
        assert vendor.stats().calls == 25
    (left,) = listed(project)
    assert left["error_type"] == "not_json"
    assert project.one("SELECT DISTINCT mapping FROM assay.isolated_acts") == '{"text": "body"}'
    assert project.broken() == []


async def test_low_priority_waits_while_it_is_paused_and_holds_nothing_back(project: Project) -> None:
    records = [
        {"id": each["id"], "text": each["text"], "urgency": "low" if number % 3 else "normal"}
        for number, each in enumerate(gold(project))
    ]
    project.write_records("in.jsonl", records)
    project.done("pipeline", "register", "tickets.py")
    told = project.done("pipeline", "pause-low", "tickets", "--reason", "the queue is long", "--by", "ann")
    assert told == "tickets: records of low priority wait from now on; 0 of them are parked.\n"
    async with practising(project) as vendor:
        await run(project, vendor, "in.jsonl", "--map", "priority=urgency")
        assert vendor.stats().calls == 10
        assert project.states()["retry_scheduled"] == 20
        assert project.committed() == TICKETS
        status = await done_by(project, "status")
        assert "LOW PRIORITY PAUSED: tickets" in status
        told = await done_by(project, "pipeline", "resume-low", "tickets", "--reason", "done")
        assert told == "tickets: records of low priority are worked on again; 20 of them are parked.\n"
        await run(project, vendor, "in.jsonl", "--map", "priority=urgency")
        assert vendor.stats().calls == TICKETS
    assert "retry_scheduled" not in project.states()
    assert project.one("SELECT max(attempts) FROM assay.annotation_tasks") == 1
    assert project.broken() == []


async def test_documents_that_were_put_right_are_read_again(project: Project) -> None:
    texts = [each["text"] for each in gold(project)[:3]]
    (project.folder / "texts").mkdir()
    project.write("texts/0.txt", texts[0])
    project.write_records("in.jsonl", [{"id": f"d{n}", "doc": f"{n}.txt"} for n in range(3)])
    mapped = ("--map", "document=doc", "--documents-root", "texts")
    replay = (
        "isolated", "replay", "--pipeline", "tickets.py", "--fixed", "document", "--documents-root", "texts",
        "--reason", "the upload is complete", "--error-type", "document_missing", "--run",
    )  # fmt: skip
    async with practising(project) as vendor:
        await run(project, vendor, "in.jsonl", *mapped)
        assert {row["path"] for row in listed(project)} == {"/document_ref"}
        project.write("texts/1.txt", texts[1])
        told = await done_by(project, *replay)
        assert told == (
            "1 record for tickets; a worker will label them; as before: 1 malformed: document_missing.\n"
        )
        (left,) = listed(project)
        whole = json.dumps({"id": "d2", "text": texts[2]})
        done = await asyncio.to_thread(
            subprocess.run,
            [*ASSAY, "isolated", "fix", str(left["isolated_id"]), "--pipeline", "tickets.py", "--stdin",
             "--reason", "typed by hand"],
            cwd=project.folder, env=project.environment({}), input=whole, text=True, capture_output=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        await run(project, vendor, "in.jsonl", *mapped)
    assert project.rows("SELECT record_id, document_ref FROM assay.inputs ORDER BY record_id") == [
        ("d0", "0.txt"), ("d1", "1.txt"), ("d2", None),
    ]  # fmt: skip
    assert project.one("SELECT count(*) FROM assay.results") == 3
    assert project.broken() == []
