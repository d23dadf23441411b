"""A unique token in texts, answers, invented keys and broken lines stays in the vault."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from assay.adapters.embedded.server import EmbeddedServer

TOKEN = "Zq7PlantedTokenXw"
PIPELINE = '''
from typing import Literal
from assay import Confidence, Contract, Pipeline, Prompt, Reason, Route

class Ticket(Contract):
    category: Literal["billing", "other"]
    confidence: Confidence
    reason: Reason

pipeline = Pipeline(name="planted", contract=Ticket, model="recorded:answers.jsonl#answer",
                    prompt=Prompt("Label it."), route=Route(accept_at=0.5))
'''  # fmt: skip
ANSWERS = [
    {"category": "billing", "confidence": 0.9, "reason": f"because of {TOKEN}"},
    {"category": "billing", "confidence": 0.1, "reason": f"maybe {TOKEN}"},
    {"category": "billing", "confidence": 0.9, "reason": "x", TOKEN: 1},
    {"category": TOKEN, "confidence": 0.9, "reason": "x"},
    {"category": "other", "confidence": TOKEN, "reason": [TOKEN]},
]


def _assay(project: Path, *arguments: str) -> tuple[int, str]:
    environment = {**os.environ, "ASSAY_PROJECT": str(project), "ASSAY_TRACEBACK": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "assay", *arguments], cwd=project, env=environment, capture_output=True,
        text=True, timeout=120, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("planted")
    (folder / "planted.py").write_text(PIPELINE)
    answers = [json.dumps({"id": f"r{n}", "answer": json.dumps(each)}) for n, each in enumerate(ANSWERS)]
    answers.append(json.dumps({"id": "r5", "answer": f"Here is {TOKEN}: {{}}"}))
    (folder / "answers.jsonl").write_text("\n".join(answers) + "\n")
    records = [json.dumps({"id": f"r{n}", "text": f"{n} {TOKEN} text", "subject_id": "s1"}) for n in range(6)]
    broken = [f'{{"id": "r9", "text": "{TOKEN}', f'{{"id": "r8", "note": "{TOKEN}"}}', f"{TOKEN} prose"]
    conflict = json.dumps({"id": "r0", "text": f"other {TOKEN} content"})
    (folder / "records.jsonl").write_text("\n".join([*records, *broken, conflict]) + "\n")
    code, output = _assay(folder, "run", "planted.py", "--input", "records.jsonl")
    assert code == 0, output
    assert TOKEN not in output
    yield folder
    assert _assay(folder, "db", "stop")[0] == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["status"], ["status", "--json"], ["results", "planted.py"],
        ["results", "planted", "--format", "csv"],
        ["explain", "r0"], ["explain", "r2", "--json"], ["explain", "r5"], ["explain", "records.jsonl:7"],
        ["audit", "--deep"], ["pipeline", "list"],
        ["eval", "planted.py", "--gold", "records.jsonl#id"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_no_command_shows_it(project: Path, arguments: list[str]) -> None:
    _, output = _assay(project, *arguments)
    assert output.strip()
    assert TOKEN not in output


def test_reveal_shows_it_and_so_the_token_is_really_there(project: Path) -> None:
    code, output = _assay(project, "results", "planted.py", "--reveal", "--with-text")
    assert code == 0
    assert output.count(TOKEN) >= 6 + 2


def test_no_table_holds_it_in_the_open(project: Path) -> None:
    hexed = TOKEN.encode().hex()
    with EmbeddedServer(project).acquire() as lease, psycopg.connect(lease.url) as connection:
        tables = connection.execute(
            "SELECT table_schema, table_name FROM information_schema.tables "
            "WHERE table_schema IN ('assay', 'assay_vault', 'public')"
        ).fetchall()
        assert len(tables) > 20
        for schema, table in tables:
            rows = connection.execute(
                sql.SQL("SELECT t::text FROM {} t").format(sql.Identifier(schema, table))
            ).fetchall()
            for (row,) in rows:
                assert TOKEN not in row, f"{schema}.{table}"
                assert hexed not in row, f"{schema}.{table}"


def test_no_log_holds_it(project: Path) -> None:
    status = EmbeddedServer(project).status()
    assert status.log is not None
    assert TOKEN not in status.log.read_text("utf-8", "replace")


def test_every_record_has_its_destination(project: Path) -> None:
    _, output = _assay(project, "status", "--json")
    figures = json.dumps(json.loads(output))
    assert "quarantined" in figures
    code, _ = _assay(project, "audit")
    assert code == 0
