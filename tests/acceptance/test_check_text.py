"""`assay check` with a contract that looks into the record's text."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from labelling_project import ASSAY

CONTRACT = """
from assay import Contract, Quote

class Bill(Contract):
    total: str
    evidence: Quote
"""
ANSWER = '{"total": "12.50", "evidence": "TOTAL 12.50"}'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "bill.py").write_text(CONTRACT)
    (tmp_path / "answer.json").write_text(ANSWER)
    (tmp_path / "here.txt").write_text("\ufeffACME\nTOTAL 12.50\n", encoding="utf-8")
    (tmp_path / "elsewhere.txt").write_text("ACME\nTOTAL  12.50\n")
    return tmp_path


def check(folder: Path, *options: str, lines: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*ASSAY, "check", "bill.py", *options], cwd=folder, input=lines, text=True, capture_output=True,
        check=False, timeout=60,
    )  # fmt: skip


def codes(done: subprocess.CompletedProcess[str]) -> list[str | None]:
    return [json.loads(line)["code"] for line in done.stdout.splitlines()]


def test_one_text_for_all(folder: Path) -> None:
    assert codes(check(folder, "--raw", "answer.json", "--text", "here.txt")) == [None]
    refused = check(folder, "--raw", "answer.json", "--text", "elsewhere.txt", "--fail")
    assert (refused.returncode, codes(refused)) == (1, ["semantic_invalid"])
    assert codes(check(folder, "--text", "here.txt", lines=f"{json.dumps(ANSWER)}\n" * 2)) == [None, None]


def test_a_text_for_each(folder: Path) -> None:
    lines = [[ANSWER, "x TOTAL 12.50"], [ANSWER, "planted"], ANSWER, [ANSWER], [ANSWER, 5], "planted"]
    done = check(folder, lines="".join(f"{json.dumps(line)}\n" for line in lines))
    assert codes(done) == [None, "semantic_invalid"]
    assert done.returncode == 2
    assert [line.split(" is ")[0] for line in done.stderr.splitlines()] == [f"Line {n}" for n in (3, 4, 5, 6)]
    assert "planted" not in done.stdout + done.stderr


def test_without_a_text_it_is_said(folder: Path) -> None:
    refused = check(folder, "--raw", "answer.json")
    assert refused.returncode == 2
    assert "--text" in refused.stderr
    (folder / "latin.txt").write_bytes(b"\xff")
    for name in ("nowhere.txt", "latin.txt"):
        assert check(folder, "--raw", "answer.json", "--text", name).returncode == 2
