"""`assay budget` and the acts of `assay pipeline`, as people and scripts use them."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from assay.adapters.postgres.audit_store import AuditStore
from assay.cli.main import main
from labelling_project import PATIENCE_SECONDS, TICKETS, Project


class Office(Project):
    """A project whose commands are called in this process."""

    def finished(
        self, *arguments: str, timeout: float = PATIENCE_SECONDS, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        out, told = io.StringIO(), io.StringIO()
        with (
            patch.dict(os.environ, self.environment({"COLUMNS": "200", "LOGNAME": "ann"} | environment)),
            patch.object(sys, "argv", ["assay", *arguments]),
            contextlib.chdir(self.folder),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(told),
            pytest.raises(SystemExit) as ended,
        ):
            main()
        code = ended.value.code
        return subprocess.CompletedProcess(
            arguments, code if isinstance(code, int) else 0, out.getvalue(), told.getvalue()
        )

    def read(self, *arguments: str) -> Any:
        """What a command prints as JSON."""
        return json.loads(self.done(*arguments, "--json"))


@pytest.fixture
def office(tmp_path: Path, db_url: str) -> Office:
    made = Office(tmp_path, db_url)
    made.write("tickets.py", TICKETS.replace("max_attempts=20", 'max_attempts=20, label="first"'))
    made.done("pipeline", "register", "tickets.py")
    return made


def _spend(office: Office, cost: str | None) -> None:
    with_cost = "NULL" if cost is None else cost
    office.rows(
        "INSERT INTO assay.calls (task_id, attempt_id, version_id, pass_number, outcome, billed, cost, "
        f"recorded_at) VALUES (1, gen_random_uuid(), 1, 1, 'failed', true, {with_cost}, assay.assay_now()) "
        "RETURNING 1"
    )


def test_a_cap_that_nothing_can_use_is_told(office: Office) -> None:
    unknown = office.finished("budget", "set", "nosuch", "--day", "1")
    assert unknown.returncode == 0
    assert "No version of nosuch is registered yet" in unknown.stderr
    assert "Registered are tickets." in unknown.stderr
    assert office.finished("budget", "set", "tickets", "--day", "1").stderr == ""
    unpriced = TICKETS.replace(" price=Price(input_per_million=1, output_per_million=4),", "")
    office.write("unpriced.py", unpriced.replace("max_attempts=20", "max_attempts=19"))
    office.done("pipeline", "register", "unpriced.py")
    assert "No price is on record" in office.finished("budget", "set", "tickets", "--day", "1").stderr
    office.write("recorded.py", unpriced.replace("openai:practice-1", "recorded:answers.jsonl#answer"))
    office.write_records("answers.jsonl", [{"id": "r1", "answer": "{}"}])
    office.done("pipeline", "register", "recorded.py")
    assert office.finished("budget", "set", "tickets", "--day", "1").stderr == ""


def test_a_budget_is_shown_set_and_cleared(office: Office) -> None:
    (before,) = office.read("budget")
    assert (before["pipeline"], before["day"], before["total"], before["counted"]) == (
        "tickets",
        None,
        None,
        0,
    )
    (made,) = office.read("budget", "set", "tickets", "--day", "50", "--total", "1000.5")
    assert (made["day"]["cap"], made["total"]["cap"], made["currency"]) == (50, 1000.5, "USD")
    assert made["day"]["set_by"] == "ann"
    page = office.done("budget")
    for part in ("tickets", "50", "1000.5", "USD", "first"):
        assert part in page
    told = office.finished("budget", "clear", "tickets", "--day", "--by", "bob")
    assert (told.returncode, told.stderr) == (0, "")
    again = office.finished("budget", "clear", "tickets", "--day")
    assert "had no cap per day" in again.stderr
    (after,) = office.read("budget")
    assert (after["day"], after["total"]["left"]) == (None, 1000.5)
    assert AuditStore(office.database_url).audit().broken == ()


def test_what_was_spent_shows_by_version_and_unknown_costs_apart(office: Office) -> None:
    office.done("budget", "set", "tickets", "--total", "1")
    for cost in ("0.25", "1.5", None):
        _spend(office, cost)
    (found,) = office.read("budget")
    (version,) = found["versions"]
    assert (version["spent_today"], version["spent"], version["calls_unknown"]) == (1.75, 1.75, 1)
    assert version["call_reserve"] > 0
    assert found["counted"] == pytest.approx(1.75 + version["call_reserve"])
    assert found["total"]["left"] < 0
    assert "over by" in office.done("budget")


REFUSED = (
    (("budget", "set", "tickets"), "--day AMOUNT"),
    (("budget", "set", "tickets", "--day", "much"), "a number"),
    (("budget", "set", "tickets", "--day", "5", "--currency", "Euro"), "three capital letters"),
    (("budget", "set", "tickets", "--day", "5", "--by", " "), "--by"),
    (("budget", "clear", "tickets"), "--day, --total"),
    (("pipeline", "show", "abcdef1"), "names no version"),
    (("pipeline", "freeze", "first", "--reason", " "), "--reason"),
    (("pipeline", "approve", "first", "--reason", "x", "--model", ""), "--model"),
    (("pipeline", "revoke", "first", "7", "--reason", "x"), "no approval 7"),
)


@pytest.mark.parametrize(("command", "told"), REFUSED, ids=[" ".join(command) for command, _ in REFUSED])
def test_what_does_not_fit_is_one_sentence_and_exit_code_2(
    office: Office, command: tuple[str, ...], told: str
) -> None:
    refused = office.finished(*command)
    assert (refused.returncode, refused.stdout) == (2, "")
    (line,) = refused.stderr.splitlines()
    assert line.startswith("assay: ")
    assert told in line


def test_a_cap_may_wait_for_its_pipeline(office: Office) -> None:
    told = office.finished("budget", "set", "later", "--day", "5")
    assert told.returncode == 0
    assert "No version of later is registered yet" in told.stderr
    assert [each["pipeline"] for each in office.read("budget")] == ["later", "tickets"]


def test_a_version_is_frozen_stopped_approved_and_shown(office: Office) -> None:
    acts = (
        ("freeze", "changed"), ("stop", "changed"), ("unfreeze", "changed"), ("resume", "changed"),
    )  # fmt: skip
    for act, key in acts:
        first = office.read("pipeline", act, "first", "--reason", f"why {act}")
        assert (first["label"], first[key]) == ("first", True)
        assert office.read("pipeline", act, "tickets.py", "--reason", "again")[key] is False
    office.done("pipeline", "stop", "first", "--reason", "odd labels", "--by", "bob")
    office.done("pipeline", "freeze", "first", "--reason", "drift")
    assert [row["stopped"] for row in office.read("pipeline", "list")] == ["stopped_by_person"]
    assert "stopped: stopped_by_person" in office.done("pipeline", "list", "--all")
    approved = office.read("pipeline", "approve", "first", "--reason", "checked", "--unfreeze")
    assert (approved["unfrozen"], approved["model"]) == (True, None)
    office.done("pipeline", "approve", "first", "--reason", "an alias", "--model", "practice-2")
    number = str(approved["approval_id"])
    assert office.read("pipeline", "revoke", "first", number, "--reason", "too early")["revoked"] is True
    page = office.read("pipeline", "show", "first")
    assert [event["kind"] for event in reversed(page["events"])] == [
        "frozen", "stopped", "unfrozen", "resumed", "stopped", "frozen", "approved", "unfrozen", "approved",
        "approval_revoked",
    ]  # fmt: skip
    assert {event["actor"] for event in page["events"]} == {"ann", "bob"}
    assert [(each["kind"], each["revoked_by"]) for each in page["approvals"]] == [
        ("unproven", "ann"), ("model", None),
    ]  # fmt: skip
    shown = office.done("pipeline", "show", "tickets.py")
    for part in ("openai:practice-1", "category, confidence, reason", "0.85", "odd labels, by bob",
                 "practice-2", "unproven", "frozen            no"):  # fmt: skip
        assert part in shown
    assert AuditStore(office.database_url).audit().broken == ()
