"""What the options of `assay run` do to a whole run: limit, resume, malformed input, dry run, Git commit."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import psycopg
import pytest
from call_accounts import books

from labelling_project import Project
from practice_runs import practising, run_tickets, ticket_project

TICKETS_IN_FILE = 40
ROWS = 1500  # a source is read 500 records at a time

RECORDED = """
from typing import Literal
from assay import Contract, Pipeline, Prompt, Route

class Row(Contract):
    category: Literal["billing", "other"]

pipeline = Pipeline(name="rows", contract=Row, model="recorded:answers.csv#answer", prompt=Prompt("Label."),
                    route=Route())
"""


@pytest.fixture
def project(tmp_path: Path, db_url: str) -> Project:
    return ticket_project(tmp_path, db_url, TICKETS_IN_FILE)


def figures(project: Project, *command: str) -> dict[str, Any]:
    """The closing figures of a run that must succeed."""
    told = json.loads(project.done(*command, "--json"))
    assert isinstance(told, dict)
    return told


def recorded_project(folder: Path, database_url: str, *, malformed_of_four: int = 0) -> Project:
    """Rows with recorded answers; of each four, the first ones lack their text."""
    project = Project(folder, database_url)
    project.write("rows.py", RECORDED)
    texts = ("" if row % 4 < malformed_of_four else f"text {row}" for row in range(ROWS))
    rows = "".join(f"r{row},{text},billing\n" for row, text in enumerate(texts))
    project.write("rows.csv", f"id,text,answer\n{rows}")
    answers = "".join(f"r{row},billing\n" for row in range(ROWS))
    project.write("answers.csv", f"id,answer\n{answers}")
    return project


# --- limit and resume -------------------------------------------------------------------------------------


async def test_a_file_in_three_parts(project: Project) -> None:
    seen = []
    async with practising(project, latency=0) as vendor:
        for options in (["--limit", "15"], ["--limit", "15"], []):
            told = await asyncio.to_thread(figures, project, *run_tickets(vendor.base_url, *options))
            seen.append((told["read"], told["done_before"], told["accepted"] + told["review"]))
            assert vendor.stats().calls == told["read"] + told["done_before"]
            assert project.committed() == vendor.stats().calls
    assert seen == [(15, 0, 15), (15, 15, 15), (10, 30, 10)]
    assert project.broken() == []
    assert books(project, project.folder / "journal.jsonl").discrepancies(most_lost=0) == []


async def test_a_limit_of_nothing_reads_nothing(project: Project) -> None:
    async with practising(project, latency=0) as vendor:
        told = await asyncio.to_thread(figures, project, *run_tickets(vendor.base_url, "--limit", "0"))
        assert vendor.stats().calls == 0
    assert (told["read"], told["done_before"]) == (0, 0)
    assert project.states() == {}


async def test_a_finished_file_is_not_read_again(project: Project) -> None:
    async with practising(project, latency=0) as vendor:
        command = run_tickets(vendor.base_url)
        first = await asyncio.to_thread(figures, project, *command)
        again = await asyncio.to_thread(figures, project, *command)
        assert (first["read"], first["done_before"]) == (TICKETS_IN_FILE, 0)
        assert (again["read"], again["done_before"], again["calls"]) == (0, TICKETS_IN_FILE, 0)
        # The control: it is the checkpoint that spares the reading.
        with psycopg.connect(project.database_url) as connection:
            connection.execute("UPDATE assay.source_checkpoints SET committed_offset = 7")
        rewound = await asyncio.to_thread(figures, project, *command)
        assert (rewound["read"], rewound["done_before"]) == (TICKETS_IN_FILE - 7, TICKETS_IN_FILE)
        assert vendor.stats().calls == TICKETS_IN_FILE
    assert project.committed() == TICKETS_IN_FILE
    assert project.broken() == []


# --- malformed input --------------------------------------------------------------------------------------


def test_mostly_malformed_input_stops_the_run(tmp_path: Path, db_url: str) -> None:
    project = recorded_project(tmp_path, db_url, malformed_of_four=3)
    stopped = project.finished("run", "rows.py", "--input", "rows.csv", "--json")
    assert stopped.returncode in (1, 2)
    (sentence,) = (line for line in stopped.stderr.splitlines() if "malformed" in line)
    assert "reading stopped" in sentence
    assert "Traceback" not in stopped.stderr
    isolated = project.one("SELECT count(*) FROM assay.isolated_records")
    reached = project.one("SELECT max(source_offset) + 1 FROM assay.isolated_records")
    assert 0 < reached < ROWS, "it did not read on to the end"
    assert isolated == sum(row % 4 < 3 for row in range(reached))
    assert set(project.rows("SELECT error_code FROM assay.isolated_records")) == {("input_schema_invalid",)}
    # What else was read and not labelled is behind the checkpoint: the next run reads it.
    assert project.committed() <= reached
    assert project.broken() == []

    went_on = figures(project, "run", "rows.py", "--input", "rows.csv", "--max-invalid", "1")
    assert went_on["review"] + went_on["done_before"] + went_on["isolated"] >= ROWS
    assert project.one("SELECT count(*) FROM assay.isolated_records") == ROWS * 3 // 4
    assert project.states() == {"review_pending": ROWS // 4}
    assert project.committed() == ROWS
    assert project.broken() == []


def test_malformed_input_below_the_share_is_set_aside(tmp_path: Path, db_url: str) -> None:
    project = recorded_project(tmp_path, db_url, malformed_of_four=1)
    told = figures(project, "run", "rows.py", "--input", "rows.csv")
    assert (told["read"], told["isolated"], told["review"]) == (ROWS, ROWS // 4, ROWS * 3 // 4)


# --- dry run ----------------------------------------------------------------------------------------------


def rows_stored(project: Project) -> dict[str, int]:
    """Tables of the product that hold rows."""
    tables = project.rows(
        "SELECT schemaname || '.' || tablename FROM pg_tables WHERE schemaname IN ('assay', 'assay_vault')"
    )
    counts = {table: project.one(f"SELECT count(*) FROM {table}") for (table,) in tables}
    assert len(counts) > 10
    return {table: count for table, count in counts.items() if count}


async def test_a_dry_run_stores_and_calls_nothing(project: Project) -> None:
    before = rows_stored(project)
    async with practising(project, latency=0) as vendor:
        command = run_tickets(vendor.base_url, "--dry-run")
        told = await asyncio.to_thread(figures, project, *command)
        part = await asyncio.to_thread(figures, project, *command, "--limit", "9")
        assert vendor.stats().calls == 0
        assert (told["records"], told["malformed"], part["records"]) == (TICKETS_IN_FILE, 0, 9)
        assert rows_stored(project) == before
        assert not (project.folder / ".assay").exists(), "no key and no database are made either"
        # The control: a run that is none leaves rows.
        await asyncio.to_thread(project.done, *run_tickets(vendor.base_url, "--limit", "1", "--quiet"))
    assert rows_stored(project).keys() > before.keys()


# --- the commit of the code -------------------------------------------------------------------------------


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=Somebody", "-c", "user.email=somebody@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True, timeout=60
    )
    return done.stdout.strip()


def registered_commit(project: Project, prompt: str) -> str | None:
    """Run a version with this prompt; the commit that it is registered with."""
    project.write("rows.py", RECORDED.replace("Label.", prompt))
    return run_and_find_commit(project)


def run_and_find_commit(project: Project) -> str | None:
    project.done("run", "rows.py", "--input", "rows.csv", "--limit", "1", "--quiet")
    found = project.one("SELECT code_commit FROM assay.pipeline_versions ORDER BY version_id DESC LIMIT 1")
    assert found is None or isinstance(found, str)
    return found


def test_the_commit_of_the_folder_is_recorded(tmp_path: Path, db_url: str) -> None:
    project = recorded_project(tmp_path, db_url)
    assert registered_commit(project, "Outside of Git.") is None

    project.write("rows.py", RECORDED.replace("Label.", "Committed."))
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "rows.py", "rows.csv", "answers.csv")
    git(tmp_path, "commit", "--quiet", "-m", "A pipeline")
    commit = git(tmp_path, "rev-parse", "HEAD")
    assert run_and_find_commit(project) == commit
    assert registered_commit(project, "Changed since.") == f"{commit}+"
    # What assay keeps beside the pipeline, the vault key above all, stays out of version control.
    assert git(tmp_path, "status", "--porcelain", "--untracked-files=all") == "M rows.py"
