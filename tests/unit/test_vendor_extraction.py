"""The practice vendor's faults of extractions: each spoils one place, and the contract's class is known."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

from assay.vendor.chance import Draws
from assay.vendor.extraction import EXTRACTION
from assay.vendor.faults import say
from assay.vendor.gold import JsonObject

TEXT = "ACME\nbread 1.50\nmilk   2.25\nTOTAL 3.75"
ANSWER: JsonObject = {
    "seller": {"value": "ACME", "evidence": "ACME", "confidence": 0.9},
    "lines": [
        {"name": "bread", "quantity": 1, "amount": "1.50", "evidence": "bread 1.50"},
        {"name": "milk", "quantity": 2.5, "amount": "2.25", "evidence": "milk 2.25"},
    ],
    "total": {"value": "3.75", "evidence": "TOTAL 3.75", "confidence": 0.95},
    "paid": True,
}


def said(fault: str, number: int, answer: JsonObject = ANSWER) -> str:
    spoken = say(answer, fault, Draws(number, b"", "faults"), TEXT)
    assert (spoken.finish_reason, spoken.fault) == ("stop", fault)
    return spoken.content


def differences(before: object, after: object, path: str = "") -> dict[str, tuple[object, object]]:
    """Leaves that differ, by path; None for one that is not there."""
    if isinstance(before, dict) and isinstance(after, dict):
        keys = before.keys() | after.keys()
        parts = [differences(before.get(key), after.get(key), f"{path}/{key}") for key in keys]
    elif isinstance(before, list) and isinstance(after, list):
        parts = [differences(b, a, f"{path}/{n}") for n, (b, a) in enumerate(zip(before, after, strict=True))]
    else:
        return {} if before == after else {path: (before, after)}
    return {where: pair for part in parts for where, pair in part.items()}


def only(fault: str, number: int) -> tuple[str, object, object]:
    ((path, (before, after)),) = differences(ANSWER, json.loads(said(fault, number))).items()
    return path, before, after


def test_a_dropped_field() -> None:
    paths = {only("dropped_field", number)[0] for number in range(200)}
    assert {"/seller", "/paid", "/lines", "/lines/1/amount", "/total/value", "/total/confidence"} <= paths


def test_a_mis_summed_amount_differs_by_more_than_any_rounding() -> None:
    found = [only("mis_summed", number) for number in range(200)]
    assert {path for path, _, _ in found} == {"/lines/0/amount", "/lines/1/amount", "/total/value"}
    for _, before, after in found:
        assert abs(Decimal(str(before)) - Decimal(str(after))) >= 1
        assert isinstance(after, str)
        assert after.partition(".")[2].isdigit()


def test_a_number_as_a_string() -> None:
    found = {only("string_number", number) for number in range(50)}
    assert found == {("/lines/0/quantity", 1, "1"), ("/lines/1/quantity", 2.5, "2.5")}


def test_a_confidence_only_where_there_is_no_other_number() -> None:
    answer: JsonObject = {"kind": "x", "confidence": 0.5}
    assert json.loads(said("string_number", 1, answer)) == {"kind": "x", "confidence": "0.5"}


def test_a_wrong_quote_occurs_nowhere() -> None:
    known = " ".join(TEXT.split())
    for number in range(200):
        path, _, after = only("wrong_quote", number)
        assert path.endswith("/evidence")
        assert " ".join(str(after).split()) not in known


def test_a_draft_before_or_after_the_final_object() -> None:
    orders = set()
    for number in range(100):
        content = said("draft", number)
        first, end = json.JSONDecoder().raw_decode(content)
        second = json.loads(content[content.index("{", end) :])
        assert (first == ANSWER) != (second == ANSWER)
        orders.add(first == ANSWER)
    assert orders == {True, False}


@pytest.mark.parametrize("fault", sorted(EXTRACTION - {"draft", "dropped_field"}))
def test_a_fault_without_a_place_does_not_happen(fault: str) -> None:
    answer: JsonObject = {"colour": "red", "kinds": ["a"], "on": True}
    spoken = say(answer, fault, Draws(1, b"", "faults"), TEXT)
    assert (json.loads(spoken.content), spoken.finish_reason, spoken.fault) == (answer, "stop", None)


def test_the_answer_itself_is_never_changed() -> None:
    before = json.dumps(ANSWER)
    for fault in EXTRACTION:
        for number in range(20):
            said(fault, number)
    assert json.dumps(ANSWER) == before
