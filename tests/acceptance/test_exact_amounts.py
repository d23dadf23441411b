"""Amounts keep every digit: in the label, the vault, every export, the events, and beside gold."""

from __future__ import annotations

import csv
import io
import json
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from assay.domain.json_text import read_json
from labelling_project import Project

pq = import_module("pyarrow.parquet")

PIPELINE = """
from decimal import Decimal
from typing import Annotated
from pydantic import Field
from assay import Confidence, Contract, DecimalText, Pipeline, Prompt, Route, rule

class Line(Contract):
    name: str
    amount: Decimal

class Bill(Contract):
    total: DecimalText
    paid: Decimal
    cents: Annotated[Decimal, Field(multiple_of=Decimal("0.01"))]
    lines: list[Line]
    confidence: Confidence

    @rule(version=1, fields=("total", "lines"))
    def adds_up(self) -> bool:
        return not self.lines or sum((line.amount for line in self.lines), Decimal(0)) == self.total

pipeline = Pipeline(name="bills", contract=Bill, model="recorded:bills.jsonl#answer",
                    prompt=Prompt("Read."), route=Route(accept_at=0.5))
"""
# total (text), paid, cents (numbers), line amounts: as the model writes them.
EXACT = {
    "sum": ("0.30", "0.3", "0.30", ["0.1", "0.2"]),
    "zeros": ("2.500", "2.500", "2.50", ["1.250", "1.250"]),
    "digits": ("123456789012345678901234567890.12", "99999999999999.9", "1234567890123.45", []),
    "tiny": ("0.000000000000000000000000000001", "0.000001", "0.00", []),
    "minus": ("-5.59", "-5.590", "-5.59", ["-6.00", "0.41"]),
}
# A model that computes in floats, literals that no two parsers read alike, and sums that are off by nothing.
REFUSED = {
    "float sum": (("0.30", "0.3", "0.30", ["0.1", "0.20000000000000004"]), "semantic_invalid"),
    "beyond": (("1.00", "1e400", "1.00", []), "schema_validation_error"),
    "beyond as text": (("1e400", "1.0", "1.00", []), "schema_validation_error"),
    "17 digits": (("1.00", "9007199254740993", "1.00", []), "schema_validation_error"),
    "18 digits": (("1.00", "0.12345678901234567890", "1.00", []), "schema_validation_error"),
    "thousandths": (("1.00", "1.0", "1.005", []), "schema_validation_error"),
}


def answer(total: str, paid: str, cents: str, amounts: list[str]) -> str:
    lines = ", ".join(f'{{"name": "x", "amount": {amount}}}' for amount in amounts)
    return f'{{"total": "{total}", "paid": {paid}, "cents": {cents}, "lines": [{lines}], "confidence": 0.90}}'


@pytest.fixture
def project(tmp_path: Path, db_url: str) -> Project:
    made = Project(tmp_path, db_url)
    made.write("bills.py", PIPELINE)
    cases = {**EXACT, **{name: values for name, (values, _) in REFUSED.items()}}
    made.write_records(
        "bills.jsonl",
        [{"id": name, "text": name, "answer": answer(*values)} for name, values in cases.items()],
    )
    made.done("run", "bills.py", "--input", "bills.jsonl", "--quiet")
    return made


def written(label: Any) -> tuple[str, str, str, list[str]]:
    """The digits of a label as `read_json` keeps them."""
    amounts = [str(line["amount"]) for line in label["lines"]]
    return str(label["total"]), str(label["paid"]), str(label["cents"]), amounts


def test_every_digit_everywhere(project: Project, tmp_path: Path) -> None:
    assert project.broken() == []
    assert dict(project.rows(
        "SELECT record_id, error_code FROM assay.annotation_tasks WHERE error_code IS NOT NULL"
    )) == {name: code for name, (_, code) in REFUSED.items()}  # fmt: skip

    stored = project.rows(
        "SELECT t.record_id, o.label_json::text, e.payload::text FROM assay.annotation_tasks t"
        " JOIN assay.annotation_outputs o USING (task_id) JOIN assay.outbox_events e"
        " ON e.payload -> 'label' = o.label_json AND e.payload ->> 'record_id' = t.record_id"
        " WHERE o.label_json IS NOT NULL"
    )
    assert {record for record, _, _ in stored} == EXACT.keys()
    for record, label, event in stored:
        assert written(read_json(label)) == EXACT[record]
        payload: Any = read_json(event)
        assert written(payload["label"]) == EXACT[record]

    for line in project.done("results", "bills.py", "--reveal", "--state", "auto_candidate").splitlines():
        row: Any = read_json(line)
        assert written(row["label"]) == EXACT[row["record_id"]]
        assert row["label"]["lines"] == [] or row["label"]["lines"][0]["name"] == "x"

    sheet = csv.DictReader(io.StringIO(project.done("results", "bills.py", "--format", "csv", "--reveal")))
    for cells in sheet:
        if cells["record_id"] in EXACT:
            label = {name: cells[f"label.{name}"] for name in ("total", "paid", "cents")}
            assert written({**label, "lines": read_json(cells["label.lines"])}) == EXACT[cells["record_id"]]

    project.done("results", "bills.py", "--format", "parquet", "--output", "bills.parquet", "--reveal")
    table = pq.read_table(tmp_path / "bills.parquet")
    assert str(table.schema.field("label.cents").type) == "decimal128(38, 2)"
    for values in table.to_pylist():
        if values["record_id"] in EXACT:
            total, paid, cents, amounts = EXACT[values["record_id"]]
            assert (values["label.total"], values["label.paid"]) == (total, paid)
            assert values["label.cents"] == Decimal(cents)
            lines: Any = read_json(values["label.lines"])
            assert [str(line["amount"]) for line in lines] == amounts


def test_published_events_keep_them_too(project: Project, tmp_path: Path) -> None:
    project.done("publish", "events.jsonl", "--to", "jsonl", "--once", "--quiet")
    found = {}
    for line in (tmp_path / "events.jsonl").read_text(encoding="utf-8").splitlines():
        event: Any = read_json(line)
        payload = event.get("data", event.get("payload", event))
        if isinstance(payload, dict) and isinstance(payload.get("label"), dict):
            found[payload["record_id"]] = written(payload["label"])
    assert found == EXACT


def test_beside_gold_no_digit_is_lost(project: Project) -> None:
    gold = [
        f'{{"id": "{name}", "gold": {{"total": "{total}", "paid": {paid}, "cents": {cents}}}}}'
        for name, (total, paid, cents, _) in EXACT.items()
    ]
    project.write_records("gold.jsonl", gold)
    scored = json.loads(project.done("eval", "bills.py", "--gold", "gold.jsonl#gold", "--json"))
    assert scored["documents_right"] == {"exact": len(EXACT), "normalised": len(EXACT)}
    other = gold[2].replace('890.12"', '890.13"')
    project.write_records("gold.jsonl", [*gold[:2], other, gold[3].replace('"0.0', '"0.00')])
    scored = json.loads(project.done("eval", "bills.py", "--gold", "gold.jsonl#gold", "--json"))
    fields = {each["path"]: each["normalised"]["mismatches"] for each in scored["fields"]}
    assert fields == {"/total": 2, "/paid": 0, "/cents": 0}
