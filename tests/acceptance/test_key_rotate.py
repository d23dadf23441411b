"""`assay key`: another vault key in the place of the old one, under load, killed anywhere, with proof."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import secrets
import signal
import stat
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from assay.adapters.postgres.audit_store import AuditStore
from assay.adapters.postgres.key_rotation import VaultKeyStore
from assay.adapters.vault import KEY_BYTES, Vault, kek_id_of, read_key_file
from labelling_project import Project, ended
from practice_runs import practising, run_tickets, ticket_project

TOKEN = "Zq7RotatedTokenXw"
PIPELINE = """
from typing import Literal
from assay import Confidence, Contract, Pipeline, Prompt, Reason, Route

class Ticket(Contract):
    category: Literal["billing", "other"]
    confidence: Confidence
    reason: Reason

pipeline = Pipeline(name="sealed", contract=Ticket, model="recorded:answers.jsonl#answer",
                    prompt=Prompt("Label it."), route=Route(accept_at=0.5))
"""
RECORDS = 40
RUN = ("run", "sealed.py", "--input", "records.jsonl", "--quiet")
# The lock that writers under a vault key share (migration 0009).
WRITERS = 1634956009


def answer(number: int) -> dict[str, str]:
    label = {"category": "billing", "confidence": 0.9, "reason": f"{TOKEN} {number}"}
    return {"id": f"r{number}", "answer": json.dumps(label)}


@pytest.fixture
def project(tmp_path: Path, db_url: str) -> Project:
    """Texts of their own and of five subjects, and pieces that are no record, all sealed."""
    project = Project(tmp_path, db_url)
    project.write("sealed.py", PIPELINE)
    project.write_records("answers.jsonl", [answer(number) for number in range(RECORDS + 10)])
    records = [
        {"id": f"r{n}", "text": f"{TOKEN} {n}", **({"subject_id": f"s{n % 5}"} if n % 2 else {})}
        for n in range(RECORDS)
    ]
    project.write_records("records.jsonl", [*records, *(f"{TOKEN} no record {n}" for n in range(6))])
    project.done(*RUN)
    return project


def key_path(project: Project) -> Path:
    return project.folder / ".assay" / "vault.key"


def ring(project: Project) -> list[str]:
    """Ids of the keys in the project's file, in its order."""
    return [kek_id_of(key) for key in read_key_file(key_path(project))]


def in_use(project: Project) -> set[str]:
    """Ids of the vault keys that wrap anything."""
    return set(VaultKeyStore(project.database_url).wrapped())


def ciphertexts(project: Project) -> list[tuple[object, ...]]:
    return project.rows(
        "SELECT text_ref, ciphertext FROM assay_vault.texts UNION ALL "
        "SELECT raw_ref, ciphertext FROM assay_vault.raws UNION ALL "
        "SELECT label_ref, ciphertext FROM assay_vault.labels ORDER BY 1"
    )


def assert_all_opens(project: Project) -> None:
    """Under the keys of the file as it is now, and nothing else in the database is broken either."""
    report = AuditStore(project.database_url, Vault(*read_key_file(key_path(project)))).audit()
    assert [finding.invariant for finding in report.broken] == []


def test_everything_is_rewrapped_and_no_ciphertext_is_touched(project: Project) -> None:
    (old,) = ring(project)
    before = ciphertexts(project)
    rotated = project.finished("key", "rotate")
    assert rotated.returncode == 0, rotated.stderr
    assert TOKEN not in rotated.stderr
    new, kept = ring(project)
    assert kept == old
    assert in_use(project) == {new}
    assert ciphertexts(project) == before
    assert stat.S_IMODE(key_path(project).stat().st_mode) == 0o600
    assert_all_opens(project)

    retired = project.finished("key", "retire")
    assert retired.returncode == 0, retired.stderr
    assert ring(project) == [new]
    assert_all_opens(project)
    assert project.done("results", "sealed.py", "--reveal", "--with-text").count(TOKEN) == 2 * RECORDS
    project.done("key", "check")


def test_a_record_under_a_subjects_key_keeps_its_wrapping(project: Project) -> None:
    def wrapped() -> list[tuple[object, ...]]:
        return project.rows(
            "SELECT text_ref, wrapped_key FROM assay_vault.texts WHERE subject_id IS NOT NULL ORDER BY 1"
        )

    before = wrapped()
    assert before
    project.done("key", "rotate", "--retire", "--quiet")
    assert wrapped() == before
    assert_all_opens(project)


def test_runs_go_on_under_the_new_key(project: Project) -> None:
    project.done("key", "rotate", "--retire", "--quiet")
    (new,) = ring(project)
    project.write_records(
        "more.jsonl", [{"id": f"r{n}", "text": "more"} for n in range(RECORDS, RECORDS + 10)]
    )
    project.done("run", "sealed.py", "--input", "more.jsonl", "--quiet")
    assert in_use(project) == {new}
    assert project.one("SELECT count(*) FROM assay_vault.texts") == RECORDS + 10


async def test_a_worker_runs_meanwhile(tmp_path: Path, db_url: str) -> None:
    project = ticket_project(tmp_path, db_url, 300)
    async with practising(project, latency=0.1) as vendor:
        with project.started(*run_tickets(vendor.base_url)) as process:
            await vendor.until(lambda stats: stats.ended >= 20)
            (old,) = ring(project)
            rotated = await asyncio.to_thread(project.finished, "key", "rotate", "--retire")
            assert rotated.returncode == 0, rotated.stderr
            assert process.poll() is None, "the run ended before the rotation did: nothing is shown"
            code, told = await asyncio.to_thread(ended, process)
    assert code == 0, told
    (new,) = ring(project)
    assert new != old
    assert in_use(project) == {new}
    assert "vault_key_changed" in told
    assert sum(project.states().values()) == 300
    assert_all_opens(project)


# --- killed -------------------------------------------------------------------------------------------


@contextmanager
def holding(project: Project, *statements: str) -> Iterator[None]:
    """Locks of somebody else, held in a transaction of their own."""
    with psycopg.connect(project.database_url) as connection:
        for statement in statements:
            connection.execute(statement.encode())
        yield
        connection.rollback()


WAITING = (
    "SELECT count(*) = 1 FROM pg_stat_activity "
    "WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


def until(connection: psycopg.Connection[tuple[object, ...]], query: str) -> None:
    """Until a query says true."""
    deadline = time.monotonic() + 60
    while connection.execute(query.encode()).fetchone() != (True,):
        assert time.monotonic() < deadline, query


def until_blocked(project: Project) -> None:
    """Until `assay key` waits for a lock."""
    with psycopg.connect(project.database_url, autocommit=True) as connection:
        until(connection, f"{WAITING} AND application_name = 'assay key'")


BLOCKED_AT = {
    "the new key is in the file alone": "LOCK TABLE assay_vault.keys IN SHARE ROW EXCLUSIVE MODE",
    "the database knows the new key": "SELECT FROM assay_vault.texts FOR UPDATE",
    "texts are rewrapped": "SELECT FROM assay_vault.raws FOR UPDATE",
    "texts and isolated bytes are rewrapped": "SELECT FROM assay_vault.subject_keys FOR UPDATE",
    "all is rewrapped, the old key not retired": f"SELECT pg_advisory_xact_lock_shared({WRITERS})",
}


@pytest.mark.parametrize("moment", BLOCKED_AT)
def test_killed_and_started_again(project: Project, moment: str) -> None:
    (old,) = ring(project)
    with project.started("key", "rotate", "--retire") as process, holding(project, BLOCKED_AT[moment]):
        until_blocked(project)
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=60)
    # Whatever was done, the keys in the file open everything, and runs go on.
    assert old in ring(project)
    assert_all_opens(project)
    project.done(*RUN)
    assert_finished_by_another(project, old)


def test_killed_between_the_proof_and_the_file(project: Project) -> None:
    (old,) = ring(project)
    with (
        project.started("key", "rotate", "--retire") as process,
        psycopg.connect(project.database_url) as writer,
        psycopg.connect(project.database_url) as other,
    ):
        writer.execute("SELECT pg_advisory_xact_lock_shared(%s)", (WRITERS,))
        until_blocked(project)
        other.execute("LOCK TABLE assay_vault.raws IN ACCESS EXCLUSIVE MODE")
        writer.rollback()
        with psycopg.connect(project.database_url, autocommit=True) as onlooker:
            until(onlooker, f"SELECT state = 'retired' FROM assay_vault.keys WHERE kek_id = '{old}'")
        until_blocked(project)
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=60)
    assert old in ring(project)
    assert_all_opens(project)
    assert project.finished("key", "retire").returncode == 0
    assert old not in ring(project)
    assert_all_opens(project)


def assert_finished_by_another(project: Project, old: str) -> None:
    again = project.finished("key", "rotate", "--retire")
    assert again.returncode == 0, again.stderr
    (new,) = ring(project)
    assert new != old
    assert in_use(project) == {new}
    assert_all_opens(project)


# --- other keys ---------------------------------------------------------------------------------------


def encoded(key: bytes) -> str:
    return base64.b64encode(key).decode()


def test_a_wrong_key_changes_nothing(project: Project) -> None:
    before = VaultKeyStore(project.database_url).states(), in_use(project), key_path(project).read_bytes()
    wrong = encoded(secrets.token_bytes(KEY_BYTES))
    for command in ("rotate", "retire"):
        refused = project.finished("key", command, ASSAY_VAULT_KEY=wrong)
        assert refused.returncode == 2
        assert "was written with vault key" in refused.stderr
        assert wrong not in refused.stderr
    checked = project.finished("key", "check", ASSAY_VAULT_KEY=wrong)
    assert checked.returncode == 1
    assert before == (
        VaultKeyStore(project.database_url).states(), in_use(project), key_path(project).read_bytes()
    )  # fmt: skip


def test_keys_in_the_environment(project: Project) -> None:
    old = key_path(project).read_text().strip()
    new = encoded(secrets.token_bytes(KEY_BYTES))
    alone = project.finished("key", "rotate", ASSAY_VAULT_KEY=old)
    assert alone.returncode == 2
    assert "OLD,NEW" in alone.stderr
    rotated = project.finished("key", "rotate", "--retire", ASSAY_VAULT_KEY=f"{old},{new}")
    assert rotated.returncode == 0, rotated.stderr
    assert "take it out of ASSAY_VAULT_KEY" in rotated.stderr
    assert in_use(project) == {kek_id_of(base64.b64decode(new))}
    project.done("audit", "--deep", ASSAY_VAULT_KEY=new)
    assert project.finished("audit", "--deep", ASSAY_VAULT_KEY=old).returncode == 2
    refused = project.finished("run", "sealed.py", "-i", "records.jsonl", ASSAY_VAULT_KEY=old)
    assert refused.returncode == 2


def test_a_prepared_key_is_the_one_that_is_taken(project: Project) -> None:
    (old,) = ring(project)
    project.done("key", "rotate", "--prepare")
    assert ring(project)[0] == old
    prepared = ring(project)[1]
    assert in_use(project) == {old}
    project.done(*RUN)
    project.done("key", "rotate", "--prepare")
    assert ring(project) == [old, prepared]
    project.done("key", "rotate")
    assert ring(project) == [prepared, old]
    assert in_use(project) == {prepared}


def test_nothing_is_written_under_a_retired_key(project: Project) -> None:
    old = Vault(*read_key_file(key_path(project)))
    project.done("key", "rotate", "--retire", "--quiet")
    with psycopg.connect(project.database_url) as connection, pytest.raises(psycopg.Error) as refused:
        connection.execute(
            "INSERT INTO assay_vault.texts VALUES (nextval('assay_vault.refs'), NULL, %s, %s, '')",
            (old.kek_id, old.new_key()[1]),
        )
    assert refused.value.sqlstate == "AS003"


def test_a_key_that_does_not_open_is_left_and_keeps_the_old_key(project: Project) -> None:
    (old,) = ring(project)
    project.rows(
        "UPDATE assay_vault.texts SET wrapped_key = '\\x00' WHERE text_ref = "
        "(SELECT min(text_ref) FROM assay_vault.texts WHERE subject_id IS NULL) RETURNING text_ref"
    )
    rotated = project.finished("key", "rotate", "--retire")
    assert rotated.returncode == 1
    assert "1 keys do not open" in rotated.stderr
    assert old in ring(project)
    assert in_use(project) == set(ring(project))


def test_two_first_runs_with_different_keys(db_url: str) -> None:
    """The second one waits for the first one's transaction, and is refused by the database itself."""
    one, other = (Vault(secrets.token_bytes(KEY_BYTES)) for _ in range(2))
    insert = "INSERT INTO assay_vault.texts VALUES (nextval('assay_vault.refs'), NULL, %s, '', '')"
    with psycopg.connect(db_url) as first, psycopg.connect(db_url) as second, ThreadPoolExecutor(1) as thread:
        first.execute(insert, (one.kek_id,))
        blocked = thread.submit(second.execute, insert, (other.kek_id,))
        with psycopg.connect(db_url, autocommit=True) as onlooker:
            until(onlooker, WAITING)
        first.commit()
        with pytest.raises(psycopg.Error) as refused:
            blocked.result(timeout=60)
    assert refused.value.sqlstate == "AS003"
    store = VaultKeyStore(db_url)
    assert store.first(other.kek_id) == one.kek_id == store.current()
    assert set(store.wrapped()) == {one.kek_id}


def test_keys_are_shown_by_id_alone(project: Project) -> None:
    material = key_path(project).read_text().split()
    project.done("key", "rotate", "--quiet")
    material += key_path(project).read_text().split()
    shown = project.done("key", "show") + project.done("key", "show", "--json") + project.done("key", "check")
    assert all(kek_id in shown for kek_id in ring(project))
    assert not any(each in shown for each in material)
    keys = {line["kek_id"]: line for line in json.loads(project.done("key", "show", "--json"))["keys"]}
    new, old = ring(project)
    assert (keys[new]["state"], keys[old]["state"]) == ("current", "previous")
    assert (keys[new]["texts"], keys[new]["isolated"], keys[new]["subjects"]) == (RECORDS // 2, 6, 5)
    assert keys[old]["texts"] == 0


def test_a_key_file_that_others_may_read_is_told(project: Project) -> None:
    key_path(project).chmod(0o644)
    assert "chmod 600" in project.done("key", "check")


@pytest.mark.scale
def test_ten_thousand_rows_a_second(db_url: str) -> None:
    """The best of three rotations: the machine may be busy with something else."""
    rows = 50_000
    keys = [os.urandom(KEY_BYTES) for _ in range(4)]
    vault = Vault(*keys)
    with psycopg.connect(db_url) as connection:
        copy = "COPY assay_vault.texts (text_ref, kek_id, wrapped_key, ciphertext) FROM STDIN"
        with connection.cursor().copy(copy) as lines:
            for number in range(1, rows + 1):
                lines.write_row((number, vault.kek_id, vault.new_key()[1], os.urandom(400)))
    store = VaultKeyStore(db_url)
    rates = []
    for key in keys[1:]:
        store.change(kek_id_of(key))
        vault.use(kek_id_of(key))
        started = time.monotonic()
        assert store.sweep(vault, lambda _: None).rewrapped == rows
        rates.append(rows / (time.monotonic() - started))
    assert max(rates) > 10_000
