"""Field scores: a table worked out by hand, what counts as the same, alignment, and real receipts."""

from __future__ import annotations

import json
import re
from datetime import date
from decimal import Decimal
from typing import Annotated, Literal

import pytest

from assay import Confidence, Contract, DecimalText, Plain, Quote, Reason
from assay.domain.compared_values import DateOrder, FieldKind, normal_text, normalised, read_date
from assay.domain.contract_schema import contract_schema
from assay.domain.failures import ConfigurationError
from assay.domain.field_scores import FieldEvaluation, FieldScore, Pair, Tally, score_fields
from assay.domain.json_text import Json, Number, read_json
from assay.domain.unscored import unscored
from labelling_project import SHARED, needs_real_inputs


class Line(Contract):
    name: str
    amount: DecimalText
    evidence: Quote


class Total(Contract):
    value: DecimalText
    evidence: Quote
    confidence: Confidence


class Bill(Contract):
    seller: str
    issued: date | None
    kind: Literal["receipt", "invoice"]
    total: Total | None
    rate: Decimal | None
    lines: list[Line]
    tags: list[Annotated[str, Plain()]]
    reason: Reason


def score(*pairs: tuple[object, object], dates: DateOrder = DateOrder.YMD) -> FieldEvaluation:
    read = [
        Pair(read_json(json.dumps(gold)), None if found is None else read_json(json.dumps(found)))
        for gold, found in pairs
    ]
    return score_fields(read, contract_schema(Bill), left_out=unscored(Bill), dates=dates)


def field(evaluation: FieldEvaluation, path: str) -> FieldScore:
    return next(each for each in evaluation.fields if each.path == path)


def counts(tally: Tally) -> tuple[int, int, int, int]:
    return tally.matches, tally.mismatches, tally.missing, tally.spurious


def line(name: str, amount: str) -> dict[str, str]:
    return {"name": name, "amount": amount, "evidence": "x"}


def test_a_table_worked_out_by_hand() -> None:
    """Five documents, the last a dead letter. By hand:

    seller   1 Acme Ltd/ACME Ltd. (same, not exactly)  2 B/B  3 C/X  4 –/D  5 E/(none)
             exact: match 1, mismatch 2, missing 1, spurious 1; normalised: match 2, mismatch 1
    total    1 12.50/12.5 (same, not exactly)  2 3.00/none  3 –/–  4 1.00/1.00  5 2.00/(none)
             exact: match 1, mismatch 1, missing 2; normalised: match 2, missing 2
    """
    total = {"value": "12.5", "evidence": "x", "confidence": 0.4}
    evaluation = score(
        ({"seller": "Acme Ltd", "total": "12.50"}, {"seller": "ACME  Ltd.", "total": total}),
        ({"seller": "B", "total": {"value": "3.00"}}, {"seller": "B", "total": None}),
        ({"seller": "C", "total": None}, {"seller": "X", "total": None}),
        ({"seller": None, "total": "1.00"}, {"seller": "D", "total": {**total, "value": "1.00"}}),
        ({"seller": "E", "total": "2.00"}, None),
    )
    seller, amount = field(evaluation, "/seller"), field(evaluation, "/total/value")
    assert [each.path for each in evaluation.fields] == ["/seller", "/total/value"]
    assert (seller.kind, amount.kind) == (FieldKind.TEXT, FieldKind.AMOUNT)
    assert counts(seller.exact) == (1, 2, 1, 1)
    assert counts(seller.normalised) == (2, 1, 1, 1)
    assert counts(amount.exact) == (1, 1, 2, 0)
    assert counts(amount.normalised) == (2, 0, 2, 0)
    # 2/(2+1+1), 2/(2+1+1), 4/(4+2+1+1); 2/2, 2/4, 4/(4+2)
    assert (seller.normalised.precision, seller.normalised.recall, seller.normalised.f1) == (0.5, 0.5, 0.5)
    assert (amount.normalised.precision, amount.normalised.recall) == (1.0, 0.5)
    assert amount.normalised.f1 == pytest.approx(2 / 3, abs=1e-15)
    assert counts(evaluation.exact) == (2, 3, 3, 1)
    assert counts(evaluation.normalised) == (4, 1, 3, 1)
    assert (evaluation.documents, evaluation.without_label) == (5, 1)
    assert (evaluation.right_exact, evaluation.right_normalised) == (0, 1)


def test_quotients_without_a_denominator_have_no_value() -> None:
    tally = Tally(missing=1)
    assert (tally.precision, tally.recall, tally.f1) == (None, 0.0, 0.0)
    assert (Tally().precision, Tally().recall, Tally().f1) == (None, None, None)


def test_a_dead_letter_is_never_a_right_document() -> None:
    assert score(({"seller": None}, None)).right_normalised == 0
    assert score(({"seller": None}, {"seller": " "})).right_normalised == 1


def test_what_gold_does_not_mention_is_not_compared() -> None:
    evaluation = score(
        ({"seller": "A", "colour": "red"}, {"seller": "A", "issued": "2025-01-01", "reason": "so"}),
        ({"issued": "2025-01-02", "reason": "because"}, {"seller": "B", "issued": "2025-01-02"}),
    )
    assert counts(evaluation.normalised) == (2, 0, 0, 0)
    assert evaluation.unknown == ("/colour",)
    assert unscored(Bill) == {"/total/evidence", "/total/confidence", "/lines/*/evidence", "/reason"}


def test_lines_are_paired_by_the_best_alignment_in_order() -> None:
    gold = [line("bread", "1.00"), line("milk", "2.00"), line("eggs", "3.00")]
    found = [line("BREAD", "1.0"), line("bag", "0.10"), line("eggs", "3.00")]
    evaluation = score(({"lines": gold}, {"lines": found}))
    assert counts(field(evaluation, "/lines/*/name").normalised) == (2, 1, 0, 0)
    assert counts(field(evaluation, "/lines/*/name").exact) == (1, 2, 0, 0)

    dropped = score(({"lines": gold}, {"lines": found[2:]}))
    assert counts(field(dropped, "/lines/*/amount").normalised) == (1, 0, 2, 0)
    added = score(({"lines": gold}, {"lines": [line("deposit", "0.25"), *gold]}))
    assert counts(field(added, "/lines/*/amount").normalised) == (3, 0, 0, 1)
    swapped = score(({"lines": gold[:2]}, {"lines": gold[1::-1]}))
    assert counts(field(swapped, "/lines/*/amount").normalised) == (1, 0, 1, 1)


def test_a_spurious_line_counts_in_the_fields_that_gold_mentions() -> None:
    amounts = [{"amount": "1.00"}]
    evaluation = score(({"lines": amounts}, {"lines": [line("a", "1.00"), line("b", "9.00")]}),
                       ({"lines": []}, {"lines": [line("c", "4.00")]}))  # fmt: skip
    assert [each.path for each in evaluation.fields] == ["/lines/*/amount"]
    assert counts(evaluation.exact) == (1, 0, 0, 2)


def test_many_lines_are_paired_by_position() -> None:
    lines = [line(str(number), f"{number}.00") for number in range(201)]
    evaluation = score(({"lines": lines}, {"lines": lines[1:]}))
    assert counts(field(evaluation, "/lines/*/name").exact) == (0, 200, 1, 0)
    few = score(({"lines": lines[:200]}, {"lines": lines[1:200]}))
    assert counts(field(few, "/lines/*/name").exact) == (199, 0, 1, 0)


def test_an_object_where_gold_only_ever_says_there_is_none() -> None:
    found = {"total": {"value": "1.00", "evidence": "x", "confidence": 1}}
    assert counts(score(({"total": None}, found)).exact) == (0, 0, 0, 1)
    assert counts(score(({"total": None}, found), ({"total": "2.00"}, found)).exact) == (0, 1, 0, 1)


def test_single_values_in_arrays() -> None:
    evaluation = score(({"tags": ["a", "b"]}, {"tags": ["b", "c"]}))
    assert counts(field(evaluation, "/tags/*").exact) == (1, 0, 1, 1)


@pytest.mark.parametrize(
    "gold", [{"seller": ["A"]}, {"lines": "bread"}, {"tags": {"a": 1}}, {"seller": {"a": 1}}]
)
def test_gold_of_another_shape_is_refused_without_its_values(gold: dict[str, object]) -> None:
    with pytest.raises(
        ConfigurationError, match=r"another shape than the contract at /(seller|lines|tags)"
    ) as told:
        score((gold, {"seller": "A"}))
    assert "bread" not in str(told.value)


@pytest.mark.parametrize(
    ("kind", "gold", "found", "same"),
    [
        (FieldKind.AMOUNT, "60.30", "60.3", True),
        (FieldKind.AMOUNT, Number("60.30"), "60.3", True),
        (FieldKind.AMOUNT, Number("6.03e1"), "60.30", True),
        (FieldKind.AMOUNT, "12345678901234567.89", "12345678901234567.88", False),
        (FieldKind.AMOUNT, "0.30", "0.30000000000000004", False),
        (FieldKind.AMOUNT, "RM 60.30", "60.30", False),
        (FieldKind.AMOUNT, "RM 60.30", "rm 60.30", True),
        (FieldKind.TEXT, "INDAH GIFT & HOME", "Indah Gift  Home", True),
        (FieldKind.TEXT, "Stra\u00dfe", "STRASSE", True),
        (FieldKind.TEXT, "Caf\u00e9", "Cafe\u0301", True),
        (FieldKind.TEXT, "Cafe", "Caf\u00e9", False),
        (FieldKind.TEXT, "a b", "ab", False),
        (FieldKind.CHOICE, "receipt", "Receipt", False),
        (FieldKind.DATE, "20250330", "2025-03-30", True),
        (FieldKind.DATE, "2025/3/30", "2025-03-30", True),
        (FieldKind.TIME, "2025-03-30T10:00:00Z", "2025-03-30T12:00:00+02:00", True),
    ],
)
def test_what_the_normalisation_takes_for_the_same(
    kind: FieldKind, gold: Json, found: Json, same: bool
) -> None:
    assert (normalised(kind, gold) == normalised(kind, found)) is same


@pytest.mark.parametrize(
    ("text", "order", "day"),
    [
        ("19/10/2018", "dmy", date(2018, 10, 19)),
        ("10/11/2018", "mdy", date(2018, 10, 11)),
        ("10/11/2018", "dmy", date(2018, 11, 10)),
        ("12-01-19", "dmy", date(2019, 1, 12)),
        ("01.02.69", "dmy", date(1969, 2, 1)),
        ("2018-10-19", "dmy", date(2018, 10, 19)),
        ("31/02/2018", "dmy", None),
        ("19 OCT 2018", "dmy", None),
        ("2018", "ymd", None),
    ],
)
def test_dates_of_gold(text: str, order: str, day: date | None) -> None:
    assert read_date(text, DateOrder(order)) == day


class Scanned(Contract):
    company: str
    date: date
    address: str
    total: DecimalText


def simple_extractor(text: str) -> dict[str, str | None]:
    """The first line that looks like a company, the first date, the last amount after a total."""
    lines = text.splitlines()
    company = next((each for each in lines if re.search(r"SDN|BHD|ENTERPRISE|TRADING", each)), lines[0])
    day = re.search(r"\b([0-3][0-9])[/.-]([01][0-9])[/.-](20[0-9]{2})\b", text)
    totals = re.findall(r"TOTAL[^0-9]*([0-9]+\.[0-9]{2})\b", text)
    return {
        "company": company,
        "date": None if day is None else f"{day[3]}-{day[2]}-{day[1]}",
        "address": None,
        "total": totals[-1] if totals else None,
    }


@needs_real_inputs
def test_a_simple_extractor_on_real_receipts() -> None:
    """Counted here once more, each field in its own few lines."""
    path = SHARED / "receipts" / "sroie_150.jsonl"
    rows = [json.loads(each) for each in path.read_text("utf-8").splitlines()]
    pairs = [Pair(row["gold"], {**simple_extractor(row["ocr_text"])}) for row in rows]
    evaluation = score_fields(
        pairs, contract_schema(Scanned), left_out=unscored(Scanned), dates=DateOrder.DMY
    )

    def found(name: str) -> list[tuple[str, str | None]]:
        return [(row["gold"][name], simple_extractor(row["ocr_text"])[name]) for row in rows]

    totals = found("total")
    same = [
        gold == value or (re.fullmatch(r"[0-9.]+", gold) is not None and Decimal(gold) == Decimal(value))
        for gold, value in totals
        if value is not None
    ]
    missing = sum(value is None for _, value in totals)
    assert counts(field(evaluation, "/total").normalised) == (sum(same), len(same) - sum(same), missing, 0)
    companies = [normal_text(gold) == normal_text(value or "") for gold, value in found("company")]
    assert counts(field(evaluation, "/company").normalised) == (sum(companies), 150 - sum(companies), 0, 0)
    exactly = sum(gold == value for gold, value in found("company"))
    assert field(evaluation, "/company").exact.matches == exactly
    assert field(evaluation, "/address").normalised == Tally(missing=150)
    days = field(evaluation, "/date").normalised
    assert (days.matches, days.mismatches, days.missing) == (96, 0, 54)
    assert field(evaluation, "/date").exact.matches == 0
    assert evaluation.right_normalised == 0
