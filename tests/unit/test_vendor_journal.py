"""Reading the practice vendor's journal, torn lines included."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from assay.vendor.entries import Change, Entry
from assay.vendor.errors import VendorSettingsError
from assay.vendor.journal import Journal, read_changes, read_journal


def _entry(number: int, run: str = "r1") -> Entry:
    entry = Entry(run, number, "2026-01-01T00:00:00+00:00", f"key-{number}", f"req_{number}")
    entry.outcome, entry.billed, entry.cost, entry.account = "replied", True, "0.5", "none"
    entry.prompt_tokens, entry.completion_tokens = 10, 2
    return entry


def _write(path: Path, *numbers: int, run: str = "r1") -> list[Entry]:
    journal = Journal(path, 100)
    entries = [_entry(number, run) for number in numbers]
    for entry in entries:
        journal.arrived(entry.idempotency_key)
        journal.ended(entry, Decimal("0.5"))
    journal.changed(Change(run, "2026-01-01T00:00:00+00:00", 1.5, "process", "begin", {"html": 1.0}, 3.0))
    journal.close()
    return entries


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    written = _write(path, 1, 2)
    assert read_journal(path) == written
    (change,) = read_changes(path)
    assert (change.origin, change.settings, change.seconds) == ("process", {"html": 1.0}, 3.0)
    kinds = [json.loads(line)["kind"] for line in path.read_text(encoding="utf-8").splitlines()]
    assert kinds == ["call", "call", "change"]


@pytest.mark.parametrize("lost", [1, 5, 50])
def test_a_torn_last_line_is_skipped(tmp_path: Path, lost: int) -> None:
    path = tmp_path / "journal.jsonl"
    written = _write(path, 1, 2)
    path.write_bytes(path.read_bytes()[:-lost])
    assert read_journal(path) == written


def test_the_next_run_starts_on_a_line_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    written = _write(path, 1)
    path.write_bytes(path.read_bytes()[:-9])
    written += _write(path, 1, 2, run="r2")
    assert read_journal(path) == written


def test_a_broken_line_elsewhere_is_named(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    _write(path, 1, 2)
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([lines[0], lines[1][:20], *lines[1:]]) + b"\n")
    with pytest.raises(VendorSettingsError, match="line 2"):
        read_journal(path)


def test_lines_of_older_journals_are_read(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    old = {"run": "r", "sequence": 1, "time": "t", "idempotency_key": None, "request_id": "q", "status": 200}
    path.write_text(json.dumps(old) + "\n", encoding="utf-8")
    (entry,) = read_journal(path)
    assert (entry.status, entry.kind, entry.billed) == (200, "call", False)


def test_totals_by_outcome_and_account(tmp_path: Path) -> None:
    journal = Journal(None, 100)
    for number in range(3):
        journal.arrived(None)
        entry = _entry(number)
        entry.billed = number > 0
        journal.ended(entry, Decimal("0.5") if entry.billed else Decimal(0))
    totals = journal.stats.totals_by_outcome["replied"]
    assert (totals.calls, totals.billed, totals.prompt_tokens, totals.cost) == (3, 2, 20, Decimal("1.0"))
    assert journal.stats.by_account["none"].totals == totals
    shown = journal.stats.as_json()
    assert shown["cost"] == "1"
    assert shown["by_account"] == {
        "none": {
            **dict.fromkeys(("admitted", "refused", "in_flight", "peak_in_flight"), 0),
            **dict.fromkeys(("most_in_60s", "most_in_1s", "most_tokens_in_60s", "most_tokens_in_1s"), 0),
            "totals": {
                "calls": 3,
                "billed": 2,
                "prompt_tokens": 20,
                "cached_tokens": 0,
                "completion_tokens": 4,
                "cost": "1",
            },
        }
    }
