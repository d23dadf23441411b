"""What `assay status` and `assay explain` show of an incident, and a status that is watched."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from labelled_tickets import PIPELINE, Reader, answer, labelled

from labelling_project import Project, ended


@pytest.fixture
def project(tmp_path: Path, db_url: str) -> Project:
    return labelled(tmp_path, db_url)


def test_status_says_first_what_needs_somebody(project: Project) -> None:
    project.done("pipeline", "freeze", "first", "--name", "tickets", "--reason", "odd labels", "--by", "ann")
    assert project.done("status").startswith("FROZEN: tickets first ")
    project.done("pipeline", "stop", "first", "--name", "tickets", "--reason", "call ann", "--by", "ann")
    project.done("budget", "set", "tickets", "--day", "0", "--by", "ann")
    page = project.done("status")
    assert [line.split(":")[0] for line in page.splitlines() if line[:4].isupper()] == [
        "STOPPED", "FROZEN", "SPEND CAP",
    ]  # fmt: skip
    for part in ("call ann", "odd labels", "by ann", "`assay pipeline resume ", "unproven, stopped, frozen"):
        assert part in page
    (version,) = json.loads(project.done("status", "--json"))["versions"]
    assert (version["stopped"], version["stopped_by"], version["frozen_reason"]) == (
        "stopped_by_person", "ann", "odd labels",
    )  # fmt: skip
    known = json.loads(project.done("explain", "r-01", "--json"))["annotations"][0]
    assert known["version_holds"] == []  # Both came after it was done.


def test_status_is_shown_again_and_again_until_it_is_interrupted(project: Project) -> None:
    with project.started("status", "--watch", "0.2", "--json") as watching:
        assert watching.stdout is not None
        first, second = (json.loads(watching.stdout.readline()) for _ in range(2))
        assert first["database"]["now"] < second["database"]["now"]
        assert first["versions"] == second["versions"]
        watching.send_signal(signal.SIGINT)
        assert ended(watching) == (0, "")
    with project.started("status", "--watch", "0.2", ASSAY_DATABASE_URL="postgresql://127.0.0.1:1/x") as away:
        assert away.stdout is not None
        assert [away.stdout.readline()[:28] for _ in range(3)][::2] == ["PostgreSQL cannot be reached"] * 2


def test_explain_tells_where_a_text_was_read(tmp_path: Path, db_url: str) -> None:
    project = Reader(tmp_path, db_url)
    project.write("tickets.py", PIPELINE)
    project.write("one.txt", "my invoice")
    project.write_records("tickets.jsonl", [{"record_id": "r-01", "document": "one.txt"}])
    project.write(
        "answers.csv", 'record_id,one\nr-01,"' + answer("billing", "0.9").replace('"', '""') + '"\n'
    )
    project.done("run", "tickets.py", "-i", "tickets.jsonl", "--map", "document=document", "-q")
    assert "its text was read from one.txt" in project.done("explain", "r-01")
    (known,) = json.loads(project.done("explain", "r-01", "--json"))["inputs"]
    assert known["document_ref"] == "one.txt"


def test_explain_says_in_words_why_a_record_waits(tmp_path: Path, db_url: str) -> None:
    project = Reader(tmp_path, db_url)
    project.write("tickets.py", PIPELINE.replace("recorded:answers.csv#one", "openai:practice-1"))
    project.write_records("tickets.jsonl", [{"record_id": "r-01", "text": "hello"}])
    address = ("--base-url", "http://127.0.0.1:1/v1")
    with project.started("run", "tickets.py", "-i", "tickets.jsonl", "-q", *address) as run:
        assert run.stderr is not None
        while not project.rows("SELECT FROM assay.calls WHERE outcome = 'failed'"):
            assert run.poll() is None, run.stderr.read()
        run.send_signal(signal.SIGINT)
        assert ended(run)[0] == 130
    page = project.done("explain", "r-01")
    for part in (": provider_connection. No connection, or one that broke off.", "model openai:practice-1"):
        assert part in page
    assert "provider_connection: No connection" in project.done("status")
