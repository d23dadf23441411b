"""The receipts that a project may start from: what is right is accepted, and each rule has its say."""

from __future__ import annotations

import copy
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from assay import Accepted, Pipeline, Rejected
from assay.adapters.pipeline_file import load_pipeline
from assay.starter import Example, starter_files


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    folder: Path = tmp_path_factory.mktemp("receipts")
    for name, text in starter_files(example=Example.RECEIPTS).items():
        (folder / name).write_text(text, encoding="utf-8")
    return load_pipeline(str(folder / "receipts.py"))


ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in starter_files(example=Example.RECEIPTS)["receipts.jsonl"].splitlines()
]
BY_ID = {row["id"]: row for row in ROWS}


def judged(pipeline: Pipeline, record: str, gold: object) -> tuple[str, set[tuple[str, str]]]:
    text = BY_ID[record]["text"]
    verdict = pipeline.judge(json.dumps(gold, ensure_ascii=False), text=text)
    if isinstance(verdict, Accepted):
        return "accepted", set()
    return verdict.code.value, {(error.path, error.type) for error in verdict.errors}


def changed(record: str, path: str, value: object) -> Any:
    gold = copy.deepcopy(BY_ID[record]["gold"])
    *steps, last = path.strip("/").split("/")
    at = gold
    for step in steps:
        at = at[int(step)] if isinstance(at, list) else at[step]
    at[int(last) if isinstance(at, list) else last] = value
    return gold


def test_what_is_right_is_accepted(pipeline: Pipeline) -> None:
    for row in ROWS:
        verdict = pipeline.judge(json.dumps(row["gold"]), text=row["text"])
        assert isinstance(verdict, Accepted), row["id"]
        assert verdict.insufficient_evidence == (row["gold"]["gross"] is None)
        assert verdict.insufficient_evidence or verdict.confidence is not None
    assert {row["language"] for row in ROWS} >= {"de", "en", "fr", "es", "it", "ja", "nl", "pl", "sv"}
    assert {row["gold"]["currency"] for row in ROWS} >= {
        "EUR",
        "GBP",
        "USD",
        "CHF",
        "JPY",
        "PLN",
        "SEK",
        "AUD",
    }
    assert all(row["ocr_version"] for row in ROWS)


def test_the_recorded_answers_are_as_the_project_says(pipeline: Pipeline) -> None:
    codes = {}
    for row in ROWS:
        verdict = pipeline.judge(row["answer"], text=row["text"])
        if isinstance(verdict, Rejected):
            codes[row["id"]] = verdict.code.value
    assert codes == {
        "R-04": "semantic_invalid", "R-05": "json_invalid", "R-08": "semantic_invalid",
        "R-10": "schema_type_error",
    }  # fmt: skip


def test_the_lowest_confidence_counts(pipeline: Pipeline) -> None:
    gold = changed("R-01", "/lines/2/confidence", 0.31)
    verdict = pipeline.judge(json.dumps(gold), text=BY_ID["R-01"]["text"])
    assert isinstance(verdict, Accepted)
    assert verdict.confidence == Decimal("0.31")


@pytest.mark.parametrize(
    ("record", "path", "value", "errors"),
    [
        ("R-01", "/gross/value", "1144.00", {
            ("/gross/value", "amount_is_in_its_quote@1"), ("/gross/evidence", "amount_is_in_its_quote@1"),
            *((f"/{name}", "net_and_tax_make_gross@1") for name in ("net", "vat", "rounding", "gross")),
        }),
        ("R-01", "/lines/0/amount", "349.00", {
            ("/lines", "lines_add_up_at_each_rate@1"), ("/vat", "lines_add_up_at_each_rate@1"),
        }),
        ("R-01", "/lines/0/vat_rate", 7, {
            ("/lines", "lines_add_up_at_each_rate@1"), ("/vat", "lines_add_up_at_each_rate@1"),
        }),
        ("R-01", "/due/value", "2025-04-02", {
            ("/issued", "due_is_not_before_issued@1"), ("/due", "due_is_not_before_issued@1"),
        }),
        ("R-05", "/rounding", "1.01", {
            (f"/{name}", "net_and_tax_make_gross@1") for name in ("net", "vat", "rounding", "gross")
        }),
        ("R-07", "/vat/1/tax", "28.60", {
            ("/vat", "tax_follows_from_each_rate@1"),
            *((f"/{name}", "net_and_tax_make_gross@1") for name in ("net", "vat", "rounding", "gross")),
        }),
        ("R-03", "/currency", None, {("/currency", "money_has_a_currency@1")}),
        ("R-03", "/lines/0/evidence", "Lustre en verre 1 280,00", {("/lines/0/evidence", "quote_folded@1")}),
        ("R-08", "/gross/evidence", "TOTAL EUR 16,70", {("/gross/evidence", "quote_verbatim@1")}),
    ],
)  # fmt: skip
def test_each_rule_has_its_say(
    pipeline: Pipeline, record: str, path: str, value: object, errors: set[tuple[str, str]]
) -> None:
    assert judged(pipeline, record, BY_ID[record]["gold"]) == ("accepted", set())
    assert judged(pipeline, record, changed(record, path, value)) == ("semantic_invalid", errors)


def test_a_cent_is_a_rounding_and_two_are_not(pipeline: Pipeline) -> None:
    gold = changed("R-02", "/vat/0/tax", "3.01")
    assert judged(pipeline, "R-02", gold)[0] == "accepted"
    assert judged(pipeline, "R-02", changed("R-02", "/vat/0/tax", "3.02"))[0] == "semantic_invalid"
