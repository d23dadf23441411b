"""The audit: silent on a healthy database, and for every invariant broken by hand it names that one."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from audit_breakages import Breakage
from audit_breakages_ledgers import BREAKAGES
from audit_situations import KEK, TIMED_OUT, Line, build, register
from audit_situations_replays import build_replays
from psycopg import sql
from psycopg.conninfo import make_conninfo
from typer import Typer
from typer.testing import CliRunner

from assay.adapters.postgres import schema_guards
from assay.adapters.postgres.audit_store import AuditStore
from assay.adapters.postgres.queries import queries
from assay.adapters.postgres.session import make_pool
from assay.adapters.vault import Vault, WrongVaultKey
from assay.cli.audit import audit as audit_command
from assay.domain.audit import INVARIANTS, NOTES, AuditReport
from assay.domain.failures import ConfigurationError
from assay.domain.lifecycle import TaskState
from assay.domain.work import CallOutcome, FinishOutcome, Passes, park


def _administer(server_url: str, statement: sql.Composed) -> None:
    with psycopg.connect(make_conninfo(server_url, dbname="postgres"), autocommit=True) as connection:
        connection.execute(statement)


@contextmanager
def _copy(server_url: str, template: str) -> Iterator[str]:
    name = f"audit_{secrets.token_hex(6)}"
    names = {"name": sql.Identifier(name), "template": sql.Identifier(template)}
    _administer(server_url, sql.SQL("CREATE DATABASE {name} TEMPLATE {template}").format(**names))
    try:
        yield make_conninfo(server_url, dbname=name)
    finally:
        _administer(server_url, sql.SQL("DROP DATABASE {name} WITH (FORCE)").format(**names))


@pytest.fixture(scope="module")
def healthy_template(server_url: str, template_database: str) -> Iterator[str]:
    """The name of a database with every situation; nobody is connected to it, so it can be copied."""
    with _copy(server_url, template_database) as url:
        asyncio.run(build(url))
        asyncio.run(build_replays(url))
        yield str(psycopg.conninfo.conninfo_to_dict(url)["dbname"])


@pytest.fixture
def healthy(server_url: str, healthy_template: str) -> Iterator[str]:
    """The URL of a healthy database of this test's own."""
    with _copy(server_url, healthy_template) as url:
        yield url


def _audit(url: str) -> AuditReport:
    return AuditStore(url, Vault(KEK)).audit()


def _break(url: str, statements: str) -> int:
    """Run statements with triggers and foreign keys off; how many rows the last one touched."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        touched = -1
        for statement in filter(None, map(str.strip, _split(statements))):
            touched = connection.execute(statement.encode()).rowcount
        return touched


def _split(statements: str) -> list[str]:
    return [statements] if "$$" in statements else statements.split("; ")


def test_every_state_is_in_the_healthy_database(healthy: str) -> None:
    with psycopg.connect(healthy) as connection:
        states = {row[0] for row in connection.execute("SELECT state::text FROM assay.annotation_tasks")}
    assert states == {state.value for state in TaskState}


def test_a_healthy_database_has_no_findings(healthy: str) -> None:
    report = _audit(healthy)
    assert report.broken == ()
    assert report.notes == ()
    assert report.checked == len(INVARIANTS)
    assert report.tasks > len(TaskState)


def test_an_empty_database_is_healthy(db_url: str) -> None:
    assert _audit(db_url).broken == ()


@pytest.mark.parametrize(
    "breakage", BREAKAGES, ids=[f"{i}-{each.invariant}" for i, each in enumerate(BREAKAGES)]
)
def test_a_broken_invariant_is_named(healthy: str, breakage: Breakage) -> None:
    assert _break(healthy, breakage.sql) != 0, "the breakage touched nothing"
    report = _audit(healthy)
    found = {each.invariant: each for each in report.broken}
    assert set(found) == {breakage.invariant, *breakage.also}
    finding = found[breakage.invariant]
    assert finding.count >= 1
    assert 1 <= len(finding.sample) <= finding.count
    assert all(finding.sample)


def test_every_invariant_has_a_check_and_a_breakage() -> None:
    names = [invariant.name for invariant in INVARIANTS]
    assert len(names) == len(set(names))
    assert set(names) == AuditStore("", Vault(KEK)).checkable
    assert set(names) == {breakage.invariant for breakage in BREAKAGES}
    assert set(NOTES) <= set(queries("audit"))


def test_the_list_of_constraints_is_that_of_a_fresh_database(db_url: str) -> None:
    with psycopg.connect(db_url) as connection:
        present = {name for (name,) in connection.execute(queries("audit")["constraints"])}
        triggers = set(connection.execute(queries("audit")["triggers"]).fetchall())
        functions: dict[str, str] = dict(connection.execute(queries("audit")["functions"]).fetchall())
    assert schema_guards.constraints() == present
    assert schema_guards.triggers() == triggers
    assert schema_guards.functions() == functions


def test_sample_is_bounded_and_count_is_not(healthy: str) -> None:
    _break(healthy, "UPDATE assay.annotation_tasks SET attempts = 99")
    (finding,) = AuditStore(healthy, sample=3).audit().broken
    assert (finding.invariant, len(finding.sample)) == ("attempts_fit_the_history", 3)
    assert finding.count > 20


def test_without_a_vault_the_sealed_invariants_are_left_out(healthy: str) -> None:
    _break(healthy, "UPDATE assay_vault.texts SET ciphertext = ''")
    report = AuditStore(healthy).audit()
    assert report.clean
    assert report.checked == sum(not invariant.deep for invariant in INVARIANTS)


def test_another_vault_key_is_no_broken_database(healthy: str) -> None:
    with pytest.raises(WrongVaultKey, match="ASSAY_VAULT_KEY"):
        AuditStore(healthy, Vault(bytes(32))).audit()


def test_old_leases_and_overdue_work_are_notes(healthy: str) -> None:
    _break(
        healthy,
        "UPDATE assay.annotation_tasks SET lease_until = now() - interval '1 day' "
        "WHERE state = 'processing'; "
        "UPDATE assay.leases SET started_at = now() - interval '2 days', "
        "lease_until = now() - interval '1 day'; "
        "UPDATE assay.annotation_tasks SET not_before = now() - interval '1 day' "
        "WHERE state = 'retry_scheduled'; "
        "UPDATE assay.parked_tasks p SET due_at = not_before FROM assay.annotation_tasks t "
        "WHERE t.task_id = p.task_id AND t.state = 'retry_scheduled'",
    )
    report = _audit(healthy)
    assert report.clean
    assert {(note.invariant, note.count) for note in report.notes} == {
        ("abandoned_tasks", 3),
        ("overdue_parked_tasks", 4),
    }


def test_the_audit_writes_nothing(healthy: str) -> None:
    before = _fingerprint(healthy)
    _audit(healthy)
    assert _fingerprint(healthy) == before


def _fingerprint(url: str) -> object:
    with psycopg.connect(url) as connection:
        tables = [name for (name,) in connection.execute(
            "SELECT table_schema || '.' || table_name FROM information_schema.tables "
            "WHERE table_schema IN ('assay', 'assay_vault', 'public') ORDER BY 1")]  # fmt: skip
        return [
            (
                table,
                connection.execute(
                    f"SELECT md5(string_agg(t::text, '|')) FROM {table} t".encode()
                ).fetchone(),
            )
            for table in tables
        ]


async def test_a_drained_task_leaves_the_work_list_when_it_settles(db_url: str) -> None:
    """A park that gives the attempt back, then the finish: nothing is left that keeps a run from ending."""
    pool = make_pool(db_url, size=1)
    await pool.open()
    try:
        line = Line(pool, Vault(KEK), "tickets", register(db_url, "tickets", "m1"), 0)
        line.source_id = await line.sources.register(kind="file", name="f", fingerprint="f", mapping="{}")
        (task,) = await line.claim(line.record("drained"))
        await line.finish(park(task, 0.0, "drained", Passes(), uses_attempt=False))
        (task,) = await line.claims().claim_waiting(1)
        assert await line.finish(line.accepted(task)) == [FinishOutcome.DONE]
        assert await line.claims().next_due() == (None, 0)
    finally:
        await pool.close()
    assert _audit(db_url).broken == ()


def test_a_late_report_keeps_its_cost(healthy: str) -> None:
    with psycopg.connect(healthy) as connection:
        rows = connection.execute(
            "SELECT t.record_id, c.outcome, c.cost > 0 "
            "FROM assay.calls c JOIN assay.annotation_tasks t USING (task_id) "
            "WHERE t.record_id IN ('taken', 'silent') AND c.outcome <> 'accepted'"
        ).fetchall()
    assert set(rows) == {
        ("taken", CallOutcome.LEASE_LOST, True),
        ("silent", CallOutcome.OUTCOME_UNKNOWN, True),
    }


async def test_a_running_worker_causes_no_false_alarm(db_url: str) -> None:
    """Two workers claim, park, take over, supersede and commit while the audit looks again and again."""
    pool = make_pool(db_url, size=4)
    await pool.open()
    working = True

    async def work(number: int) -> None:
        name, file = f"line{number}", f"file {number}"
        line = Line(pool, Vault(KEK), name, register(db_url, name, "m1"), 0)
        line.source_id = await line.sources.register(kind="file", name=file, fingerprint=file, mapping="{}")
        while working:
            await _step(line, number)

    workers = [asyncio.create_task(work(number)) for number in range(2)]
    try:
        sizes = []
        for _ in range(8):
            report = await asyncio.to_thread(_audit, db_url)
            assert report.broken == ()
            sizes.append(report.tasks)
        assert sizes[-1] > sizes[0], "nothing went on meanwhile"
    finally:
        working = False
        await asyncio.gather(*workers)
        await pool.close()
    assert _audit(db_url).broken == ()


async def _step(line: Line, number: int) -> None:
    """One batch through most of what can happen; every offset has its destination at the end."""
    name = f"step {line.offset}"
    await line.accept(*(line.record(f"{name} of {number}, {each}") for each in range(20)))
    await line.accept(line.record(f"{name} drawn by {number}"), pool=True)
    await line.refuse(line.record(f"{name} dead of {number}"))
    await line.accept(line.record(f"{name} dead of {number}", 2))
    (task,) = await line.claim(line.record(f"{name} parked by {number}"))
    await line.finish(park(task, 0.0, "provider_timeout", TIMED_OUT, uses_attempt=True))
    await line.claim(line.record(f"{name} lost by {number}"), lease_seconds=0.0)
    await line.finish(*map(line.accepted, await line.claims().claim_waiting(10)))
    await line.sources.commit(line.source_id, line.offset)


def test_the_page_lists_every_invariant() -> None:
    page = (Path(__file__).parents[2] / "docs" / "audit.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (.*?)(?: Checked with `--deep`\.)? \|$", page, re.MULTILINE)
    assert rows == [(invariant.name, invariant.meaning) for invariant in INVARIANTS]
    assert re.findall(r"^- `(\w+)`: (.*)\.$", page, re.MULTILINE) == list(NOTES.items())


# --- the command --------------------------------------------------------------------------------------


KEY = base64.b64encode(KEK).decode()


def _run(url: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, *options: str, key: str = KEY) -> Any:
    server = psycopg.conninfo.conninfo_to_dict(url)
    where = f"{server.get('host', '')}:{server.get('port', 5432)}/{server['dbname']}"
    password = f":{server['password']}" if server.get("password") else ""
    monkeypatch.setenv("ASSAY_DATABASE_URL", f"postgresql://{server['user']}{password}@{where}")
    monkeypatch.setenv("ASSAY_PROJECT", str(tmp_path))
    monkeypatch.setenv("ASSAY_VAULT_KEY", key)
    app = Typer()
    app.command()(audit_command)
    return CliRunner().invoke(app, list(options), env={"COLUMNS": "200"})


def test_command_says_in_one_line_that_all_is_well(
    healthy: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = _run(healthy, tmp_path, monkeypatch, "--deep")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(f"{len(INVARIANTS)} invariants hold over ")
    assert done.stdout.count("\n") == 1


def test_command_shows_a_table_of_what_is_broken(
    healthy: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _break(healthy, "UPDATE assay.annotation_tasks SET attempts = 99 WHERE record_id = 'referred'")
    done = _run(healthy, tmp_path, monkeypatch)
    assert done.exit_code == 1
    assert "attempts_fit_the_history" in done.stdout
    assert "record referred version 1" in done.stdout
    assert "assay explain" in done.stdout


def test_command_with_another_key_is_no_broken_database(
    healthy: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = _run(healthy, tmp_path, monkeypatch, "--deep", key="A" * 43 + "=")
    assert isinstance(done.exception, ConfigurationError)
    assert done.exception.exit_code == 2


def test_command_speaks_json(healthy: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _break(healthy, "UPDATE assay.annotation_tasks SET attempts = 99 WHERE record_id = 'referred'")
    done = _run(healthy, tmp_path, monkeypatch, "--json")
    assert done.exit_code == 1
    report = json.loads(done.stdout)
    assert report["clean"] is False
    assert [each["invariant"] for each in report["broken"]] == ["attempts_fit_the_history"]
    assert report["broken"][0]["count"] == 1
    assert report["notes"] == []
