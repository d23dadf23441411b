"""Receipts through a vendor that truncates, drafts, drops, mis-sums and misquotes.

The vendor's journal says what it did to which call. From that alone follows where every record has to be: an
answer with a fault is refused with that fault's code, corrected at most once, and never accepted.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from call_accounts import books

from assay import Accepted, Pipeline, amounts_in
from assay.adapters.pipeline_file import load_pipeline
from assay.starter import Example, starter_files
from assay.vendor.journal import Entry, read_journal
from assay.vendor.server import start_vendor
from assay.vendor.settings import FaultShares, VendorConfig
from labelling_project import SHARED, Project, needs_real_inputs

SHARES = FaultShares(
    truncation=0.1, draft=0.12, dropped_field=0.12, mis_summed=0.12, string_number=0.12, wrong_quote=0.12
)
COPIES = 15
# Fault: code, kind, and what its findings are called.
REFUSED = {
    "truncation": ("response_truncated", "incomplete", {"response_truncated"}),
    "draft": ("json_invalid", "malformed", {"json_invalid"}),
    "dropped_field": ("schema_validation_error", "malformed", {"missing"}),
    "string_number": ("schema_type_error", "malformed", {"decimal_type", "float_type"}),
    "mis_summed": ("semantic_invalid", "semantic", {
        "amount_is_in_its_quote@1", "amount_is_in_its_row@1", "tax_follows_from_each_rate@1",
        "lines_add_up_at_each_rate@1", "net_is_the_sum_of_its_rates@1", "net_and_tax_make_gross@1",
    }),
    "wrong_quote": ("semantic_invalid", "semantic", {
        "quote_verbatim@1", "quote_folded@1", "amount_is_in_its_quote@1", "amount_is_in_its_row@1",
    }),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Expected:
    """Where a record has to be: `code` None for one that is accepted or for review."""

    calls: int
    first: str | None
    code: str | None
    fault: str | None


def expected(calls: list[Entry]) -> Expected:
    """What follows from what the vendor did, call by call."""
    faults = [call.fault for call in calls]
    codes = [None if fault is None else REFUSED[fault][0] for fault in faults]
    is_final = codes[0] in (None, "semantic_invalid")
    return Expected(1 if is_final else 2, codes[0], codes[-1], faults[-1])


def project_of(folder: Path, database_url: str) -> tuple[Project, Pipeline]:
    project = Project(folder, database_url)
    for name, text in starter_files(example=Example.RECEIPTS).items():
        project.write(name, text)
    return project, load_pipeline(str(folder / "receipts.py"))


async def played(project: Project, rows: list[dict[str, Any]]) -> Path:
    """The rows, labelled by a vendor with faults; its journal."""
    project.write_records("rows.jsonl", rows)
    journal = project.folder / "journal.jsonl"
    config = VendorConfig(
        project.folder / "rows.jsonl", "gold", "text", seed=11, faults=SHARES, journal=journal
    )
    async with start_vendor(config) as vendor:
        await asyncio.to_thread(
            project.done, "run", "receipts.py", "--input", "rows.jsonl", "--model", "openai:practice-1",
            "--base-url", vendor.base_url, "--quiet",
        )  # fmt: skip
    return journal


def check(project: Project, rows: list[dict[str, Any]], journal: Path) -> dict[str, int]:
    """Every record is where the journal says. Returns how often each fault was the last word on a record."""
    assert project.broken() == []
    assert books(project, journal).discrepancies(most_lost=0) == []
    calls: dict[str | None, list[Entry]] = defaultdict(list)
    for entry in sorted(read_journal(journal), key=lambda entry: entry.turn or 0):
        calls[entry.text_sha256].append(entry)
    records = {row["id"]: calls[hashlib.sha256(row["text"].encode()).hexdigest()] for row in rows}
    wanted = {record: expected(made) for record, made in records.items()}
    assert {record: len(made) for record, made in records.items()} == {
        record: each.calls for record, each in wanted.items()
    }
    letters = project.rows(
        "SELECT t.record_id, t.state::text, d.error_code, d.kind, d.failure_class, d.first_pass_code,"
        " d.errors FROM assay.annotation_tasks t LEFT JOIN assay.dead_letters d USING (task_id)"
    )
    tally: dict[str, int] = defaultdict(int)
    for record, state, code, kind, failure_class, first, errors in letters:
        one = wanted[record]
        if one.fault is None:
            assert state in ("auto_candidate", "review_pending"), record
            assert code is None
            continue
        tally[one.fault] += 1
        refused, its_kind, types = REFUSED[one.fault]
        assert (state, code, kind, failure_class) == ("quarantined", refused, its_kind, "contract"), record
        assert first == one.first
        assert {error["type"] for error in errors} <= types, (record, one.fault, errors)
    check_accepted(project, rows, {record for record, one in wanted.items() if one.fault is None})
    return tally


def check_accepted(project: Project, rows: list[dict[str, Any]], clean: set[str]) -> None:
    """What was accepted is what is right, to the last digit; first-pass failures are marked."""
    exported = [
        json.loads(line, parse_float=str)
        for line in project.done(
            "results", "receipts.py", "--model", "openai:practice-1", "--reveal",
            "--state", "auto_candidate", "--state", "review_pending",
        ).splitlines()
    ]  # fmt: skip
    assert {row["record_id"] for row in exported} == clean
    gold = {row["id"]: json.loads(json.dumps(row["gold"]), parse_float=str) for row in rows}
    for row in exported:
        assert row["label"] == gold[row["record_id"]]


def copies(project: Project) -> list[dict[str, Any]]:
    """The starter's receipts many times, each text of its own."""
    lines = (project.folder / "receipts.jsonl").read_text(encoding="utf-8").splitlines()
    return [
        {"id": f"{row['id']}-{copy}", "text": f"{row['text']}\n\n[{copy}]", "gold": row["gold"]}
        for row in map(json.loads, lines)
        for copy in range(COPIES)
    ]


async def test_without_rules_and_quotes_wrong_answers_are_accepted(tmp_path: Path, db_url: str) -> None:
    """The control: what the next tests find is found by the contract, and by nothing else."""
    project, _ = project_of(tmp_path, db_url)
    source = (tmp_path / "receipts.py").read_text(encoding="utf-8")
    source = re.sub(r"    @rule\(.*\n", "", source).replace("evidence: Quote", "evidence: str")
    project.write("receipts.py", source.replace(", Quoted(fold_whitespace=True)", ""))
    rows = copies(project)
    journal = await played(project, rows)
    with pytest.raises(AssertionError):
        check(project, rows, journal)
    wrong = {entry.fault for entry in read_journal(journal)}
    found = project.rows("SELECT error_code FROM assay.dead_letters")
    assert {"mis_summed", "wrong_quote"} <= wrong
    assert ("semantic_invalid",) not in found


async def test_made_up_receipts(tmp_path: Path, db_url: str) -> None:
    project, _ = project_of(tmp_path, db_url)
    rows = copies(project)
    journal = await played(project, rows)
    tally = check(project, rows, journal)
    assert tally.keys() == REFUSED.keys()
    assert tally["mis_summed"] > 5
    assert tally["wrong_quote"] > 5

    scored = json.loads(project.done(
        "eval", "receipts.py", "--model", "openai:practice-1", "--gold", "rows.jsonl#gold", "--json"
    ))  # fmt: skip
    assert scored["evaluated"] == len(rows)
    assert scored["without_label"] == sum(tally.values())
    assert scored["documents_right"]["exact"] == len(rows) - sum(tally.values())
    for name in ("mismatches", "spurious"):
        assert scored["all_fields"]["exact"][name] == 0
    assert scored["all_fields"]["exact"]["precision"] == 1.0


@needs_real_inputs
async def test_real_receipts_and_invoices(tmp_path: Path, db_url: str) -> None:
    project, pipeline = project_of(tmp_path, db_url)
    rows = [
        {"id": f"{number}", "text": text, "gold": gold}
        for number, (text, gold) in enumerate({**dict(real_invoices()), **dict(real_receipts())}.items())
        if isinstance(pipeline.judge(json.dumps(gold), text=text), Accepted)
    ]
    assert len(rows) > 150
    journal = await played(project, rows)
    tally = check(project, rows, journal)
    assert tally.keys() == REFUSED.keys()


def real_receipts() -> Iterator[tuple[str, dict[str, Any]]]:
    """Receipts whose total stands in their text: one line, no tax."""
    for line in (SHARED / "receipts" / "sroie_150.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        total = row["gold"]["total"]
        if shows(row["ocr_text"], total) is not None:
            yield row["ocr_text"], document(row["ocr_text"], "MYR", total, [("0", total, "0.00")])


def real_invoices() -> Iterator[tuple[str, dict[str, Any]]]:
    """Invoices with their rates as lines, decimal commas and all."""
    for line in (SHARED / "receipts" / "zugferd.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        gold, text = row["gold"], row["text"]
        taxes = [(tax["rate"], tax["basis"], tax["tax"]) for tax in gold["taxes"]]
        if gold["currency"] and all(shows(text, value) for value in (gold["gross_total"], *bases(taxes))):
            yield text, document(text, gold["currency"], gold["gross_total"], taxes)


def bases(taxes: Iterable[tuple[str, str, str]]) -> list[str]:
    return [basis for _, basis, _ in taxes]


def shows(text: str, amount: str) -> str | None:
    """The first short line of the text that may state the amount."""
    try:
        value = Decimal(amount)
    except ArithmeticError:
        return None
    lines = (line.strip() for line in text.splitlines())
    return next((line for line in lines if len(line) <= 300 and value in amounts_in(line)), None)


def document(text: str, currency: str, gross: str, taxes: list[tuple[str, str, str]]) -> dict[str, Any]:
    """An extraction as the contract wants it; every quote is a line of the text."""
    return {
        "seller": None, "number": None, "issued": None, "due": None, "currency": currency,
        "prices_include_vat": False,
        "lines": [
            {"description": "goods", "quantity": 1, "amount": basis, "vat_rate": float(rate),
             "evidence": shows(text, basis), "confidence": 0.9}
            for rate, basis, _ in taxes
        ],
        "vat": [{"rate": float(rate), "net": basis, "tax": tax} for rate, basis, tax in taxes],
        "net": f"{sum((Decimal(basis) for basis in bases(taxes)), Decimal(0))}", "rounding": "0.00",
        "gross": {"value": gross, "evidence": shows(text, gross), "confidence": 0.95},
    }  # fmt: skip
