"""Log lines of whole commands: JSON for machines, words for people, and no user data in either."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from assay.telemetry import EVENTS, FIELDS
from labelling_project import Project

TOKEN = "Zq7LoggedTokenXw"
# A contract whose rule is defective for some records, and quotes the record's value when it fails.
PIPELINE = f"""
from typing import Literal
from assay import Confidence, Contract, Pipeline, Prompt, Reason, Route, rule

class Ticket(Contract):
    category: Literal["billing", "other"]
    confidence: Confidence
    reason: Reason

    @rule(version=1, fields=("reason",))
    def holds(self) -> bool:
        if "defect" in self.reason:
            raise KeyError("{TOKEN} " + self.reason)
        return True

pipeline = Pipeline(name="logged", contract=Ticket, model="recorded:answers.jsonl#answer",
                    prompt=Prompt("Label it."), route=Route(accept_at=0.5))
"""
HEAD = {"time", "level", "event"}


def answer(reason: str) -> str:
    return json.dumps({"category": "billing", "confidence": 0.9, "reason": reason})


@pytest.fixture
def project(tmp_path: Path, db_url: str) -> Project:
    """Records, a defect of a rule, lines that are no record, an identity with two contents."""
    project = Project(tmp_path, db_url)
    project.write("logged.py", PIPELINE)
    answers = [answer(f"{TOKEN} a"), answer(f"{TOKEN} defect"), f"{TOKEN} {{}}", answer("ok")]
    project.write_records(
        "answers.jsonl", [{"id": f"r{n}", "answer": each} for n, each in enumerate(answers)]
    )
    records = [{"id": f"r{n}", "text": f"{TOKEN} {n}"} for n in range(4)]
    broken = [f"{TOKEN} prose", f'{{"id": "r9", "note": "{TOKEN}"}}']
    project.write_records("in.jsonl", [*records, *broken, {"id": "r0", "text": f"other {TOKEN}"}])
    return project


def test_json_lines_hold_declared_fields_and_no_user_data(project: Project) -> None:
    done = project.finished("run", "logged.py", "--input", "in.jsonl", ASSAY_LOG_STRICT="1")
    assert done.returncode == 0, done.stderr
    assert TOKEN not in done.stderr + done.stdout
    lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    assert lines
    for line in lines:
        assert line.keys() <= HEAD | FIELDS.keys()
        assert line["event"] in EVENTS
        assert "dropped" not in line


def test_json_that_is_asked_for_is_all_there_is(project: Project) -> None:
    """Sentences for people are lines of the log then, those of refusals and of wrong options too."""
    first = project.finished("run", "logged.py", "--input", "in.jsonl", ASSAY_LOG="json")
    assert first.returncode == 0
    lines = [json.loads(line) for line in first.stderr.splitlines()]
    assert any(line["event"] == "notice" and "Registered" in line["sentence"] for line in lines)
    for arguments in (("run", "nowhere.py", "--input", "in.jsonl"), ("run", "--imput"), ("explain", "r-99")):
        refused = project.finished(*arguments, ASSAY_LOG="json")
        (line,) = [json.loads(line) for line in refused.stderr.splitlines()]
        assert (refused.returncode, line["event"], line["exit_code"]) == (2, "refusal", 2)
        assert line["sentence"].endswith(".")


def test_people_get_words(project: Project) -> None:
    """On a terminal; a pseudo-terminal stands for one."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "assay", "run", "logged.py", "--input", "in.jsonl", "--quiet"],
        cwd=project.folder, env=project.environment({"ASSAY_LOG_LEVEL": "info", "NO_COLOR": "1"}),
        stdout=subprocess.DEVNULL, stderr=theirs,
    ) as process:  # fmt: skip
        os.close(theirs)
        told = _all_of(ours)
    assert process.returncode == 0
    assert TOKEN not in told
    assert '{"time"' not in told


def _all_of(terminal: int) -> str:
    """What is written to a terminal until its last writer closes it (then Linux answers with an error)."""
    pieces = []
    try:
        while piece := os.read(terminal, 65536):
            pieces.append(piece)
    except OSError:
        os.close(terminal)
    return b"".join(pieces).decode("utf-8", "replace")


@pytest.mark.parametrize("form", ["json", "human"])
def test_a_defect_is_told_by_type_and_place(project: Project, form: str) -> None:
    """A signal handler's error stands for a defect: its message quotes a value."""
    script = (
        "import assay.cli.main as main, assay.config as config\n"
        f"def broken(*_): raise KeyError('{TOKEN}')\n"
        "config.load_settings = broken\n"
        "main.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "status"], cwd=project.folder,
        env=project.environment({"ASSAY_LOG": form}), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert TOKEN not in done.stderr
    assert "Traceback" not in done.stderr
    assert "KeyError at" in done.stderr
    assert "command_failed" in done.stderr


def test_a_wrong_setting_is_one_sentence(project: Project) -> None:
    for refused in (project.finished("status", ASSAY_LOG="loud"),
                    project.finished("status", ASSAY_LOG_LEVEL="loud")):  # fmt: skip
        assert refused.returncode == 2
        assert " is one of " in refused.stderr
