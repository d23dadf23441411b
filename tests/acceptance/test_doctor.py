"""`assay doctor` where things are in order, and in each way in which they are not."""

from __future__ import annotations

import base64
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from socket import create_server

import psycopg
import pytest

from labelling_project import ASSAY, TICKETS, Project
from practice_runs import practising, ticket_project

SECRET = "sk-planted-0123456789"


@pytest.fixture
def project(tmp_path: Path, db_url: str) -> Project:
    """A recorded pipeline that has run once, in a database that is no test database."""
    with psycopg.connect(db_url) as connection:
        connection.execute("UPDATE assay.instance SET kind = 'production'")
    project = ticket_project(tmp_path, db_url, 3)
    answer = json.dumps({"category": "other", "confidence": 0.9, "reason": "x"})
    project.write("recorded.py", TICKETS.replace("openai:practice-1", "recorded:answers.jsonl#answer"))
    project.write_records("answers.jsonl", [{"id": "r1", "answer": answer}])
    project.write_records("one.jsonl", [{"id": "r1", "text": "hello"}])
    project.done("run", "recorded.py", "--input", "one.jsonl", "--quiet")
    return project


Found = dict[str, list[dict[str, str]]]


def examined(project: Project, *arguments: str, **environment: str) -> tuple[int, Found]:
    """Exit code and findings by what was looked at; the key never shows."""
    done = project.finished("doctor", *arguments, "--json", timeout=60, **environment)
    assert SECRET not in done.stdout + done.stderr
    found: Found = {}
    for finding in json.loads(done.stdout)["findings"]:
        found.setdefault(finding["what"], []).append(finding)
    assert json.loads(done.stdout)["ok"] == (done.returncode == 0)
    return done.returncode, found


def failed(found: Found) -> dict[str, str]:
    return {
        what: f"{each['told']} {each['todo']}" for what, of in found.items() for each in of
        if each["state"] == "fail"
    }  # fmt: skip


def test_all_is_well(project: Project) -> None:
    code, found = examined(project, "recorded.py")
    assert (code, failed(found)) == (0, {})
    assert {"versions", "extras", "project folder", "disk", "server", "clocks", "schema", "clock",
            "vault key", "open files", "pipeline", "recorded answers"} <= found.keys()  # fmt: skip
    assert "fits the database" in found["vault key"][0]["told"]
    shown = project.done("doctor", "recorded.py")
    assert "ok    schema" in shown
    assert "fail" not in shown


def test_brokers_that_do_not_answer(project: Project) -> None:
    with create_server(("127.0.0.1", 0)) as mute:
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        code, found = examined(project, ASSAY_KAFKA_BROKERS=address)
    assert code == 1
    assert address in failed(found)["brokers"]
    assert f"kafka ({version('confluent-kafka')})" in found["extras"][0]["told"]
    assert "brokers" not in examined(project)[1]


def test_no_database_server(project: Project) -> None:
    code, found = examined(project, ASSAY_DATABASE_URL=f"postgresql://u:{SECRET}@127.0.0.1:1/x")
    assert code == 1
    assert "cannot be reached" in failed(found)["server"]
    assert "schema" not in found
    assert found["vault key"][0]["state"] == "ok"


def test_a_url_of_another_kind(project: Project) -> None:
    code, found = examined(project, ASSAY_DATABASE_URL=f"mysql://u:{SECRET}@h/x")
    assert code == 1
    assert "postgresql://" in failed(found)["settings"]


def test_an_empty_database_and_one_that_is_behind(project: Project, server_url: str) -> None:
    name = f"empty_{secrets.token_hex(4)}"
    with psycopg.connect(server_url, autocommit=True) as administrator:
        administrator.execute(f"CREATE DATABASE {name}".encode())
        try:
            empty = project.database_url.replace(
                project.database_url.rpartition("/")[2].partition("?")[0], name
            )
            code, found = examined(project, ASSAY_DATABASE_URL=empty)
            assert code == 0
            assert found["schema"][0]["state"] == "warn"
        finally:
            administrator.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
    project.rows(
        "DELETE FROM assay_migrations WHERE version = (SELECT max(version) FROM assay_migrations) RETURNING 1"
    )
    code, found = examined(project)
    assert code == 1
    assert "assay migrate" in failed(found)["schema"]


def test_a_bent_clock(project: Project) -> None:
    project.rows("UPDATE assay.instance SET kind = 'drill', clock_scale = 60 RETURNING 1")
    _, found = examined(project)
    assert found["clock"][0]["state"] == "warn"
    assert "60 times" in found["clock"][0]["told"]


def test_a_wrong_vault_key_and_none(project: Project) -> None:
    code, found = examined(project, ASSAY_VAULT_KEY=base64.b64encode(secrets.token_bytes(32)).decode())
    assert code == 1
    assert "bring it back" in failed(found)["vault key"]
    code, found = examined(project, ASSAY_VAULT_KEY=SECRET)
    assert code == 1
    assert "base64" in failed(found)["vault key"]
    (project.folder / ".assay" / "vault.key").unlink()
    code, found = examined(project)
    assert code == 1
    assert "vault key" in failed(found)


def test_a_key_file_that_others_may_read(project: Project) -> None:
    (project.folder / ".assay" / "vault.key").chmod(0o640)
    code, found = examined(project)
    assert code == 0
    assert "chmod 600" in found["vault key file"][0]["told"]


def test_a_pipeline_that_does_not_load(project: Project) -> None:
    project.write("broken.py", "import nothing_of_that_name\n")
    for spec in ("broken.py", "nowhere.py"):
        code, found = examined(project, spec)
        assert code == 1
        assert spec in failed(found)["pipeline"]


def test_answers_that_are_gone(project: Project) -> None:
    (project.folder / "answers.jsonl").unlink()
    code, found = examined(project, "recorded.py")
    assert code == 1
    assert "recorded answers" in failed(found)


def test_a_recorded_model_calls_nobody(project: Project) -> None:
    at = ("--model", "recorded:answers.jsonl#answer", "--base-url", "http://127.0.0.1:1/v1")
    code, found = examined(project, "tickets.py", *at)
    assert (code, failed(found)) == (0, {})
    assert "recorded:answers.jsonl#answer" in found["pipeline"][0]["told"]
    assert (found["base URL"][0]["state"], "without effect" in found["base URL"][0]["told"]) == ("warn", True)


def test_a_missing_key_and_a_guard(project: Project) -> None:
    code, found = examined(project, "tickets.py")
    assert code == 1
    assert "OPENAI_API_KEY" in failed(found)["model key"]
    code, found = examined(project, "tickets.py", OPENAI_API_KEY=SECRET)
    assert code == 1
    assert "ASSAY_ONLY_LOOPBACK" in failed(found)["loopback guard"]
    assert "vendor" not in found


def test_a_vendor_that_is_not_there(project: Project) -> None:
    code, found = examined(project, "tickets.py", "--base-url", "http://127.0.0.1:1/v1")
    assert code == 1
    assert "no connection" in failed(found)["vendor"]


async def test_a_vendor_with_a_key_and_a_call(project: Project) -> None:
    import asyncio

    async with practising(project, api_key=SECRET) as vendor:
        at = ("tickets.py", "--base-url", vendor.base_url)
        code, found = await asyncio.to_thread(examined, project, *at, ASSAY_MODEL_API_KEY=SECRET)
        assert (code, failed(found)) == (0, {})
        assert "answers in" in found["vendor"][0]["told"]
        assert vendor.stats().calls == 0
        code, found = await asyncio.to_thread(
            examined, project, *at, "--call", ASSAY_MODEL_API_KEY="another-key"
        )
        assert code == 1
        assert "vendor" in failed(found) or "model call" in failed(found)
        code, found = await asyncio.to_thread(examined, project, *at, "--call", ASSAY_MODEL_API_KEY=SECRET)
        assert "answered in" in found["model call"][0]["told"]
        assert vendor.stats().calls >= 1
        wrong = ("tickets.py", "--base-url", f"{vendor.base_url}/nowhere")
        _, found = await asyncio.to_thread(examined, project, *wrong, "--call", ASSAY_MODEL_API_KEY=SECRET)
        assert found["vendor"][0]["state"] == "warn"
        assert "base URL's path may be wrong" in found["vendor"][0]["todo"]
        assert "base URL or model name" in failed(found)["model call"]


def test_too_few_open_files(project: Project) -> None:
    limited = subprocess.run(
        ["bash", "-c", f"ulimit -S -n 300; exec {sys.executable} -m assay doctor --concurrency 2000"],
        cwd=project.folder, env=project.environment({}), capture_output=True, text=True, check=False,
        timeout=60,
    )  # fmt: skip
    assert limited.returncode == 1
    assert "ulimit -n 2128" in limited.stdout


@contextmanager
def _readable_only(folder: Path) -> Iterator[None]:
    folder.chmod(0o555)
    try:
        yield
    finally:
        folder.chmod(0o755)


def test_a_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    """As somebody who is not root, whom permissions do not bind."""
    script = (
        "import os, sys\nimport assay.cli.doctor_page, assay.cli.main\n"
        "if os.geteuid() == 0:\n    os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "sys.argv = ['assay', 'doctor', '--json']; assay.cli.main.main()"
    )
    environment = {name: value for name, value in os.environ.items() if name != "ASSAY_SERVER_HOME"}
    for parent in (tmp_path, *tmp_path.parents[:3]):
        parent.chmod(parent.stat().st_mode | 0o011)
    with _readable_only(tmp_path):
        done = subprocess.run(
            [ASSAY[0], "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True,
            check=False, timeout=60,
        )  # fmt: skip
    assert done.returncode == 1, done.stderr
    told = {finding["what"]: finding for finding in json.loads(done.stdout)["findings"]}
    assert told["project folder"]["state"] == "fail"
    assert "ASSAY_PROJECT" in told["project folder"]["todo"]
