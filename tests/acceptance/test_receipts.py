"""Real receipts under an extraction contract: exact decimals, line items, business rules, sealed text."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

from call_accounts import books

from assay.vendor.server import start_vendor
from assay.vendor.settings import VendorConfig
from labelling_project import SHARED, Project, needs_real_inputs

RECEIPTS = SHARED / "receipts" / "sroie_150.jsonl"
RECORDS = 150
MAPS = ("--map", "text=ocr_text", "--map", "record_id=id")
PIPELINE = """
from decimal import Decimal
from typing import Annotated
from pydantic import Field
from assay import Contract, DecimalText, Pipeline, Plain, Prompt, Route, rule

Money = {money}

class LineItem(Contract):
    description: str
    amount: Money

class Receipt(Contract):
    company: str
    date: Annotated[str, Plain(), Field(max_length=40)]
    address: str
    total: Money
    items: list[LineItem]

    @rule(version=1, fields=("total",))
    def total_is_paid(self) -> bool:
        return self.total > 0

    @rule(version=2, fields=("total", "items"))
    def items_add_up(self) -> bool:
        return not self.items or sum((item.amount for item in self.items), Decimal(0)) == self.total

pipeline = Pipeline(name="receipts", contract=Receipt, model={model!r}, prompt=Prompt("Read the receipt."),
                    route=Route())
"""
PLAIN_TOTAL = re.compile(r"[0-9]+\.[0-9]{2}")

pytestmark = needs_real_inputs


def receipts() -> list[dict[str, Any]]:
    return [json.loads(line) for line in RECEIPTS.read_text(encoding="utf-8").splitlines()]


def with_items(gold: dict[str, str]) -> dict[str, Any]:
    """Gold names no items: two that add up to the total, to the cent."""
    if not PLAIN_TOTAL.fullmatch(gold["total"]):
        return {**gold, "items": []}
    total = Decimal(gold["total"])
    amounts = (Decimal("0.90"), total - Decimal("0.90"))
    return {**gold, "items": [{"description": f"item {n}", "amount": f"{a}"} for n, a in enumerate(amounts)]}


def labels(project: Project, *options: str) -> dict[str, Any]:
    """Exported labels by record, numbers as they are written."""
    lines = project.done("results", "receipts.py", *options).splitlines()
    rows = (json.loads(line, parse_float=str) for line in lines)
    return {row["record_id"]: row for row in rows}


async def test_receipts_through_the_practice_vendor(tmp_path: Path, db_url: str) -> None:
    project = Project(tmp_path, db_url)
    project.write("receipts.py", PIPELINE.format(money="DecimalText", model="openai:practice-1"))
    known = {row["id"]: with_items(row["gold"]) for row in receipts()}
    # Gold is dirty: some totals carry a currency. They must be refused, twice asked for, never stripped.
    dirty = {record for record, gold in known.items() if not PLAIN_TOTAL.fullmatch(gold["total"])}
    clean = [record for record in known if record not in dirty]
    answers = {record: dict(gold) for record, gold in known.items()}
    for record in clean[:4]:
        answers[record] |= {"total": f"-{known[record]['total']}", "items": []}
    for record in clean[4:8]:
        answers[record]["items"] = known[record]["items"] * 2
    planted = set(clean[:8])
    project.write_records(
        "gold.jsonl", [{"text": row["ocr_text"], "gold": answers[row["id"]]} for row in receipts()]
    )
    journal = tmp_path / "journal.jsonl"
    async with start_vendor(VendorConfig(tmp_path / "gold.jsonl", journal=journal)) as vendor:
        await asyncio.to_thread(
            project.done, "run", "receipts.py", "--input", str(RECEIPTS), *MAPS, "--base-url", vendor.base_url
        )
    assert project.broken() == []
    assert books(project, journal).discrepancies(most_lost=0) == []

    check_refusals(project, planted=planted, dirty=dirty)
    exported = labels(project, "--reveal", "--state", "review_pending")
    assert exported.keys() == known.keys() - planted - dirty
    for record, row in exported.items():
        assert row["label"] == known[record]
    check_secrets(project, {gold["company"] for gold in known.values()})


def check_refusals(project: Project, *, planted: set[str], dirty: set[str]) -> None:
    """A business rule: one call, no correction. A total that is no decimal: corrected once, and refused."""
    refused = project.rows(
        "SELECT t.record_id, d.error_code, d.kind, count(*) FROM assay.dead_letters d"
        " JOIN assay.annotation_tasks t USING (task_id) JOIN assay.calls c USING (task_id) GROUP BY 1, 2, 3"
    )
    assert {record: tuple(rest) for record, *rest in refused} == {
        **dict.fromkeys(planted, ("semantic_invalid", "semantic", 1)),
        **dict.fromkeys(dirty, ("schema_validation_error", "malformed", 2)),
    }
    errors = Counter(
        (error["path"], error["type"])
        for (found,) in project.rows("SELECT errors FROM assay.dead_letters")
        for error in found
    )
    assert errors == {
        ("/total", "total_is_paid@1"): 4,
        ("/total", "items_add_up@2"): 4,
        ("/items", "items_add_up@2"): 4,
        ("/total", "decimal_format"): len(dirty),
    }


def check_secrets(project: Project, companies: set[str]) -> None:
    """Free text is shown on demand alone, and stands in no plain column."""
    hidden = [row["label"] for row in labels(project, "--state", "review_pending").values()]
    assert {tuple(label) for label in hidden} == {("date", "total", "items")}
    assert {tuple(item) for label in hidden for item in label["items"]} == {("amount",)}
    plain = "\n".join(
        text
        for (text,) in project.rows(
            "SELECT label_json::text FROM assay.annotation_outputs"
            " UNION ALL SELECT payload::text FROM assay.outbox_events"
            " UNION ALL SELECT errors::text FROM assay.dead_letters"
        )
        if text is not None
    )
    assert not [company for company in companies if company in plain]


def test_recorded_receipts_keep_every_digit(tmp_path: Path, db_url: str) -> None:
    """Totals as JSON numbers, as another system wrote them: 60.30 stays 60.30, and equals gold."""
    project = Project(tmp_path, db_url)
    rows = [row for row in receipts() if PLAIN_TOTAL.fullmatch(row["gold"]["total"])]
    answers = []
    for row in rows:
        gold = with_items(row["gold"])
        written = json.dumps(gold, ensure_ascii=False)
        answers.append({"id": row["id"], "answer": re.sub(r'"(-?[0-9]+\.[0-9]+)"', r"\1", written)})
    project.write_records("answers.jsonl", answers)
    project.write("receipts.py", PIPELINE.format(money="Decimal", model="recorded:answers.jsonl#answer"))
    project.done("run", "receipts.py", "--input", str(RECEIPTS), *MAPS)
    # Receipts without an answer are dead letters that say so.
    assert project.rows("SELECT error_code, count(*) FROM assay.dead_letters GROUP BY 1") == [
        ("response_empty", RECORDS - len(rows))
    ]
    stored = dict(
        project.rows(
            "SELECT t.record_id, o.label_json ->> 'total' FROM assay.annotation_outputs o"
            " JOIN assay.annotation_tasks t USING (task_id) WHERE o.label_json IS NOT NULL"
        )
    )
    assert stored == {row["id"]: row["gold"]["total"] for row in rows}
    exported = labels(project, "--reveal", "--state", "review_pending")
    assert {record: row["label"] for record, row in exported.items()} == {
        row["id"]: with_items(row["gold"]) for row in rows
    }

    found = json.loads(project.done(
        "eval", "receipts.py", "--gold", f"{RECEIPTS}#/gold/total", "--map", "record_id=id",
        "--field", "total", "--json",
    ))  # fmt: skip
    assert (found["evaluated"], found["correct"]) == (RECORDS, len(rows))
    assert project.broken() == []
