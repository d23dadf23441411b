"""Several runs over the same records: at once, by two pipelines, of a grown file, of a newer version."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from call_accounts import books

from assay.demo.generator import generate
from assay.vendor.server import RunningVendor
from labelling_project import TICKETS, Project, ended
from practice_runs import CONCURRENCY, practising, run_tickets, ticket_project

TICKETS_IN_FILE = 100


async def run(project: Project, vendor: RunningVendor, *options: str, input_file: str = "gold.jsonl") -> None:
    command = run_tickets(vendor.base_url, *options, input_file=input_file, concurrency=16)
    await asyncio.to_thread(project.done, *command)


async def test_two_runs_of_one_file_at_once(tmp_path: Path, db_url: str) -> None:
    project = ticket_project(tmp_path, db_url, TICKETS_IN_FILE)
    async with practising(project, latency=0.2) as vendor:
        command = run_tickets(vendor.base_url)
        with project.started(*command) as one, project.started(*command) as other:
            ends = await asyncio.gather(asyncio.to_thread(ended, one), asyncio.to_thread(ended, other))
        assert [code for code, _ in ends] == [0, 0], ends
        # Both had a share in it, and no record was called twice.
        assert project.one("SELECT count(DISTINCT actor) FROM assay.task_history WHERE move = 'claim'") == 2
        assert vendor.stats().peak_in_flight > CONCURRENCY
        assert vendor.stats().calls == TICKETS_IN_FILE
    assert project.one("SELECT count(DISTINCT record_id) FROM assay.annotation_tasks") == TICKETS_IN_FILE
    assert project.states().keys() == {"auto_candidate", "review_pending"}
    assert project.one("SELECT max(revision) FROM assay.results") == 1
    assert project.committed() == TICKETS_IN_FILE
    assert project.broken() == []
    assert books(project, project.folder / "journal.jsonl").discrepancies(most_lost=0) == []


async def test_two_pipelines_over_one_file(tmp_path: Path, db_url: str) -> None:
    project = ticket_project(tmp_path, db_url, TICKETS_IN_FILE)
    project.write("other.py", TICKETS.replace('name="tickets"', 'name="other"').replace("Label", "Sort"))
    async with practising(project) as vendor:
        first = run_tickets(vendor.base_url, concurrency=16)
        second = tuple("other.py" if each == "tickets.py" else each for each in first)
        with project.started(*first) as one, project.started(*second) as other:
            ends = await asyncio.gather(asyncio.to_thread(ended, one), asyncio.to_thread(ended, other))
        assert [code for code, _ in ends] == [0, 0], ends
        assert vendor.stats().calls == 2 * TICKETS_IN_FILE
    # One text each, stored once; two annotations and two results of it.
    assert project.one("SELECT count(*) FROM assay_vault.texts") == TICKETS_IN_FILE
    assert project.rows("SELECT name, count(*) FROM assay.results GROUP BY name ORDER BY name") == [
        ("other", TICKETS_IN_FILE),
        ("tickets", TICKETS_IN_FILE),
    ]
    assert project.rows("SELECT count(*), min(committed_offset) FROM assay.source_checkpoints") == [
        (2, TICKETS_IN_FILE)
    ]
    assert project.broken() == []


async def test_a_file_that_grew(tmp_path: Path, db_url: str) -> None:
    """Rows without ids: the file's name and the row are the id, so old rows are known again."""
    project = ticket_project(tmp_path, db_url, TICKETS_IN_FILE)
    rows = [{"text": ticket.text} for ticket in generate(TICKETS_IN_FILE, seed=5)]
    async with practising(project) as vendor:
        project.write_records("grown.jsonl", rows[:60])
        await run(project, vendor, input_file="grown.jsonl")
        assert vendor.stats().calls == 60
        project.write_records("grown.jsonl", rows)
        await run(project, vendor, input_file="grown.jsonl")
        assert vendor.stats().calls == TICKETS_IN_FILE
        # Nothing is new: nothing is called.
        await run(project, vendor, input_file="grown.jsonl")
        assert vendor.stats().calls == TICKETS_IN_FILE
    ids = {record_id for (record_id,) in project.rows("SELECT record_id FROM assay.annotation_tasks")}
    assert ids == {f"grown.jsonl:{row}" for row in range(1, TICKETS_IN_FILE + 1)}
    assert project.broken() == []


async def test_a_newer_input_version_supersedes(tmp_path: Path, db_url: str) -> None:
    project = ticket_project(tmp_path, db_url, 20)
    tickets = list(generate(20, seed=5))
    # The first ten ids come again, as version 2, with the texts of the last ten.
    first = [{"id": ticket.id, "text": ticket.text} for ticket in tickets[:10]]
    newer = [
        {"id": old.id, "input_version": 2, "text": new.text}
        for old, new in zip(tickets[:10], tickets[10:], strict=True)
    ]
    project.write_records("first.jsonl", first)
    project.write_records("newer.jsonl", newer)
    async with practising(project) as vendor:
        await run(project, vendor, input_file="first.jsonl")
        await run(project, vendor, input_file="newer.jsonl")
        # The older version once more: settled, not called, and it does not come back.
        await run(project, vendor, "--source-name", "again", input_file="first.jsonl")
        assert vendor.stats().calls == 20
    assert project.rows(
        "SELECT input_version, state::text = 'superseded', count(*) FROM assay.annotation_tasks"
        " GROUP BY 1, 2 ORDER BY 1"
    ) == [(1, True, 10), (2, False, 10)]
    assert project.rows("SELECT input_version, revision, count(*) FROM assay.results GROUP BY 1, 2") == [
        (2, 2, 10)
    ]
    assert project.rows("SELECT kind, count(*) FROM assay.outbox_events GROUP BY 1 ORDER BY 1") == [
        ("completed", 20),
        ("superseded", 10),
    ]
    assert project.broken() == []


async def test_one_of_two_runs_is_killed(tmp_path: Path, db_url: str) -> None:
    """The other one goes on with its own share, and takes over what the dead one held."""
    project = ticket_project(tmp_path, db_url, TICKETS_IN_FILE)
    async with practising(project, latency=0.2) as vendor:
        command = run_tickets(vendor.base_url)
        with project.started(*command) as one, project.started(*command) as other:
            # More in flight than one run may have: both are at work.
            await vendor.until(lambda stats: stats.in_flight > CONCURRENCY and stats.ended > 10)
            one.kill()
            killed, _ = await asyncio.to_thread(ended, one)
            code, told = await asyncio.to_thread(ended, other)
        assert (killed, code) == (-signal.SIGKILL, 0), told
        await vendor.until(lambda stats: stats.in_flight == 0)
    assert project.one("SELECT count(DISTINCT record_id) FROM assay.annotation_tasks") == TICKETS_IN_FILE
    assert project.states().keys() == {"auto_candidate", "review_pending"}
    assert project.one("SELECT count(*) FROM assay.task_history WHERE move = 'take_over'") > 0
    assert project.committed() == TICKETS_IN_FILE
    assert project.broken() == []
    found = books(project, project.folder / "journal.jsonl")
    assert found.discrepancies(most_lost=2 * CONCURRENCY) == []
    assert found.journalled.total() == TICKETS_IN_FILE + len(found.lost)
