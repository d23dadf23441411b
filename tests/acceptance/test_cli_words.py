"""The words of the command line: wrong ones are one line, `--watch` needs no number, pages fit a small
terminal, and a version by mistake leaves the lists."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Final

import pytest
from labelled_tickets import Reader, labelled

from labelling_project import ASSAY, Project

WRONG: Final = (
    (("run",), "Missing argument 'PIPELINE'", "assay run"),
    (("run", "tickets.py"), "--input", "assay run"),
    (("run", "tickets.py", "--imput", "x"), "No such option: --imput", "assay run"),
    (("run", "tickets.py", "-i", "x", "--lease", "long"), "'--lease'", "assay run"),
    (("run", "tickets.py", "-i", "x", "--format", "xml"), "'--format'", "assay run"),
    (("stattus",), "No such command 'stattus'", "assay"),
    (("--verbose",), "No such option: --verbose", "assay"),
    (("status", "--watch", "often"), "'--watch'", "assay status"),
    (("status", "extra"), "extra", "assay status"),
    (("budget", "set", "tickets", "--day"), "'--day' requires an argument", "assay budget set"),
    (("pipeline", "stop"), "REFERENCE", "assay pipeline stop"),
    (("pipeline", "stop", "abcdef"), "--reason", "assay pipeline stop"),
    (("pipeline", "halt"), "No such command 'halt'", "assay pipeline"),
    (("key", "rotate", "--nothing"), "--nothing", "assay key rotate"),
    (("vendor",), "--gold", "assay vendor"),
)


@pytest.fixture
def project(tmp_path: Path, db_url: str) -> Project:
    return labelled(tmp_path, db_url)


def test_a_wrong_command_line_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    anyone = Reader(tmp_path, "")
    for words, told, command in WRONG:
        # `run` is a process of its own, so that a line from outside of `main` would be seen too.
        refused = anyone.finished(*words)
        assert (refused.returncode, refused.stdout) == (2, ""), words
        (line,) = refused.stderr.splitlines()
        assert line.startswith("assay: ")
        assert told in line
        assert line.endswith(f"`{command} --help` shows what it takes.")
    assert not list(tmp_path.iterdir())


def test_a_group_without_a_command_shows_its_help(tmp_path: Path) -> None:
    for words in ((), ("pipeline",), ("budget", "--help")):
        asked = subprocess.run([*ASSAY, *words], capture_output=True, text=True, timeout=60, check=False)
        assert asked.returncode == (0 if words == ("budget", "--help") else 2)
        assert "Usage:" in asked.stdout
        assert asked.stderr == ""


def test_help_is_wrapped_by_the_terminal_alone(project: Project) -> None:
    page = " ".join(project.done("status", "--help", COLUMNS="300").split())
    assert "before it settled any record is left out, and counted" in page


def test_status_can_be_read_at_80_columns(project: Project) -> None:
    project.done("pipeline", "register", "tickets.py", "--model", "recorded:answers.csv#two")
    for command in (("status",), ("pipeline", "list"), ("budget",), ("pipeline", "show", "first")):
        page = project.done(*command, COLUMNS="80")
        assert max(map(len, page.splitlines())) <= 80, command
    wide, narrow = project.done("status", COLUMNS="200"), project.done("status", COLUMNS="80")
    words = re.compile(r"[\w#:.\-]{4,}")
    shown = set(words.findall(narrow))
    # A row's first value stands without its heading where rows are paragraphs.
    assert set(words.findall(wide)) - shown <= {"source"}
    for whole in (
        "auto_candidate",
        "schema_validation_error",
        "insufficient_evidence",
        "recorded:answers.csv#one",
    ):
        assert whole in shown


def test_watch_needs_no_number(project: Project) -> None:
    for words in (
        ("--watch",),
        ("--watch", "0.2"),
        ("--watch=0.2",),
        ("--json", "--watch"),
        ("--watch", "--json"),
    ):
        with project.started("status", *words) as watching:
            assert watching.stdout is not None
            lines = iter(watching.stdout.readline, "")
            first = next(lines)
            if "--json" in words:
                assert json.loads(first)["versions"]
            else:
                assert any("Pipeline versions" in line for line in lines)


def test_a_version_by_mistake_leaves_the_lists(project: Project) -> None:
    mistake = json.loads(
        project.done("pipeline", "register", "tickets.py", "--model", "openai:gtp-5", "--json")
    )
    digest = mistake["pipeline_version"][:12]

    def listed(*words: str) -> bool:
        return any(
            digest in project.done(*command, *words) for command in (("status",), ("pipeline", "list"))
        )

    assert listed()
    project.done("pipeline", "stop", digest, "--reason", "mistyped")
    assert not listed()
    assert "1 version stopped before any record was settled, with 0 records waiting" in project.done("status")
    assert listed("--all")
    for command in (("status",), ("pipeline", "list")):
        assert digest in project.done(*command, "--json")
    found = {row["pipeline_version"][:12]: row["left_out"]
             for row in json.loads(project.done("pipeline", "list", "--json"))}  # fmt: skip
    assert found.pop(digest) is True
    assert set(found.values()) == {False}
    project.done("pipeline", "resume", digest, "--reason", "it was right")
    assert listed()
    # A version that labelled something is never left out.
    project.done("pipeline", "stop", "first", "--reason", "enough")
    assert "tickets first" in project.done("status")
