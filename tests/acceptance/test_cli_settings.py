"""Settings that are wrong, and readers that leave: one sentence, the right exit code, nothing changed."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from pathlib import Path

import pytest

from labelling_project import Project

TICKETS = """
from typing import Literal
from assay import Contract, Pipeline, Prompt, Route

print("loading the pipeline")

class Ticket(Contract):
    category: Literal["billing", "other"]

pipeline = Pipeline(name="tickets", contract=Ticket, model="recorded:answers.csv#answer",
                    prompt=Prompt("Label the ticket."), route=Route())
"""


def made(folder: Path, url: str) -> Project:
    project = Project(folder, url)
    project.write("tickets.py", TICKETS)
    project.write("answers.csv", "record_id,answer\nr-1,billing\nr-2,other\n")
    project.write("one.csv", "record_id,text\nr-1,invoice\n")
    project.write("two.csv", "record_id,text\nr-2,hello\n")
    return project


def test_a_lost_vault_key_is_not_replaced_by_a_new_one(tmp_path: Path, db_url: str) -> None:
    project = made(tmp_path, db_url)
    project.done("run", "tickets.py", "-i", "one.csv", "-q")
    key = tmp_path / ".assay" / "vault.key"
    kept = key.read_text()
    key.unlink()
    for command in (("run", "tickets.py", "-i", "two.csv", "-q"), ("results", "tickets.py", "--reveal")):
        refused = project.finished(*command)
        assert refused.returncode == 2
        assert "no vault key file" in refused.stderr
        assert not key.exists()
    key.write_text(kept)
    assert project.finished("results", "tickets.py", "--reveal").returncode == 0


def test_another_vault_key_never_writes_into_a_database(tmp_path: Path, db_url: str) -> None:
    project = made(tmp_path, db_url)
    project.done("run", "tickets.py", "-i", "one.csv", "-q")
    other = base64.b64encode(os.urandom(32)).decode()
    refused = project.finished("run", "tickets.py", "-i", "two.csv", "-q", ASSAY_VAULT_KEY=other)
    assert refused.returncode == 2
    assert "was written with vault key" in refused.stderr
    assert "r-2" not in project.done("results", "tickets.py")
    assert (
        project.finished("results", "tickets.py", "--reveal", "--with-text", ASSAY_VAULT_KEY=other).returncode
        == 2
    )
    project.done("run", "tickets.py", "-i", "two.csv", "-q")
    assert "hello" in project.done("results", "tickets.py", "--reveal", "--with-text")
    project.done("audit", "--deep")


def test_what_a_pipeline_file_prints_stays_out_of_the_results(tmp_path: Path, db_url: str) -> None:
    project = made(tmp_path, db_url)
    done = project.finished("run", "tickets.py", "-i", "one.csv", "--dry-run", "--json")
    assert done.returncode == 0
    assert done.stdout.startswith("{")
    assert "loading the pipeline" in done.stderr


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:planted%secret@127.0.0.1:1/db",
        "postgresql://u:planted-secret@127.0.0.1:1/db?nosuch=option",
        "postgresql://u:planted-secret@127.0.0.1:1/db",
    ],
)
def test_a_database_that_cannot_be_used_is_one_sentence(tmp_path: Path, url: str) -> None:
    refused = made(tmp_path, url).finished("status")
    assert refused.returncode == 1
    assert refused.stderr.count("\n") == 1
    assert "ASSAY_DATABASE_URL" in refused.stderr
    assert "planted" not in refused.stderr


def test_a_reader_of_a_table_that_leaves_is_no_broken_invariant(tmp_path: Path, db_url: str) -> None:
    project = made(tmp_path, db_url)
    project.done("run", "tickets.py", "-i", "one.csv", "-q")
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "assay", "status"],
            cwd=tmp_path, env=project.environment({}), stdout=write, stderr=subprocess.PIPE, check=False,
            timeout=60,
        )  # fmt: skip
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")
