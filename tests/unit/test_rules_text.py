"""Contracts that look into the record's text: quotes, rules that see it, and the lowest confidence."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Annotated, Any

import pytest
from pydantic import Field

from assay import (
    Accepted,
    Confidence,
    Contract,
    Pipeline,
    Prompt,
    Quote,
    Quoted,
    Rejected,
    Route,
    judge,
    rule,
)
from assay.domain.contract import plan_of
from assay.domain.correction import correction_text

TEXT = "ACME  Ltd\nTOTAL\t12.50"


class Money(Contract):
    value: str
    evidence: Quote
    confidence: Confidence

    @rule(version=4, fields=("value",))
    def is_shown(self, text: str) -> bool:
        return self.value in text


class Bill(Contract, confidence="*"):
    seller: Annotated[str, Quoted(fold_whitespace=True)] | None
    total: Money
    others: list[Money]
    notes: list[Quote]
    terms: dict[str, Quote]


def money(evidence: str = "TOTAL\t12.50", value: str = "12.50", confidence: float = 0.9) -> dict[str, object]:
    return {"value": value, "evidence": evidence, "confidence": confidence}


def bill(**changes: object) -> str:
    whole: dict[str, object] = {
        "seller": "ACME Ltd", "total": money(), "others": [], "notes": ["TOTAL"], "terms": {},
    }  # fmt: skip
    return json.dumps(whole | changes)


def errors(response: str, text: str | None = TEXT) -> tuple[str, list[tuple[str, str]]]:
    verdict = judge(Bill, response, text=text)
    if isinstance(verdict, Accepted):
        return "accepted", []
    return verdict.code.value, [(error.path, error.type) for error in verdict.errors]


def test_quotes_that_are_there() -> None:
    assert errors(bill()) == ("accepted", [])
    assert errors(bill(seller=None, others=[money("12.50")], terms={"x": "Ltd"})) == ("accepted", [])


@pytest.mark.parametrize(
    ("changes", "path", "error_type"),
    [
        ({"total": money("TOTAL 12.50")}, "/total/evidence", "quote_verbatim@1"),
        ({"total": money("Total\t12.50")}, "/total/evidence", "quote_verbatim@1"),
        ({"seller": "ACME Limited"}, "/seller", "quote_folded@1"),
        ({"others": [money(), money("13.50")]}, "/others/1/evidence", "quote_verbatim@1"),
        ({"notes": ["TOTAL", "SUBTOTAL"]}, "/notes/1", "quote_verbatim@1"),
        ({"terms": {"planted": "30 days"}}, "/terms/*", "quote_verbatim@1"),
        ({"total": money(value="99.99")}, "/total/value", "is_shown@4"),
    ],
)
def test_what_is_not_there_is_named_by_its_path(
    changes: dict[str, object], path: str, error_type: str
) -> None:
    assert errors(bill(**changes)) == ("semantic_invalid", [(path, error_type)])


def test_quotes_and_rules_are_told_together_and_after_the_schema() -> None:
    wrong = bill(seller="nobody", total=money(value="7"))
    assert errors(wrong) == (
        "semantic_invalid",
        [("/seller", "quote_folded@1"), ("/total/value", "is_shown@4")],
    )
    assert errors(bill(seller="nobody", notes=[7]))[0] == "schema_type_error"
    verdict = judge(Bill, wrong, text=TEXT)
    assert isinstance(verdict, Rejected)
    assert (verdict.kind.value, verdict.correctable, verdict.retryable) == ("semantic", False, False)


def test_without_the_text_nothing_is_accepted() -> None:
    assert errors(bill(), text=None) == ("unexpected_parse_error", [("", "text_not_given")])
    assert errors(bill(notes=[7]), text=None)[0] == "schema_type_error"
    assert errors(bill(), text="")[0] == "semantic_invalid"


def test_the_lowest_confidence_is_the_signal() -> None:
    others = [money("12.50", confidence=0.75), money("12.50", confidence=1)]
    verdict = judge(Bill, bill(others=others), text=TEXT)
    assert isinstance(verdict, Accepted)
    assert verdict.confidence == Decimal("0.75")
    with pytest.raises(TypeError, match="needs a field annotated Confidence"):

        class Unsure(Contract, confidence="*"):
            a: int


def test_no_confidence_in_the_answer_is_no_signal() -> None:
    class Sparse(Contract, confidence="*"):
        found: list[Money]

    verdict = judge(Sparse, '{"found": []}', text=TEXT)
    assert isinstance(verdict, Accepted)
    assert verdict.confidence is None


def pipeline(contract: type[Contract]) -> Pipeline:
    return Pipeline(
        name="bills", contract=contract, model="openai:m", prompt=Prompt("Read."), route=Route(),
        rules_version="1",
    )  # fmt: skip


def test_quotes_and_rules_that_see_the_text_are_part_of_the_version() -> None:
    definition: dict[str, Any] = pipeline(Bill).definition
    assert definition["rules"]["Money.is_shown"] == {"version": 4, "fields": ["value"], "sees_text": True}
    assert definition["contract"]["quotes"] == {
        "/seller": "quote_folded@1", "/total/evidence": "quote_verbatim@1",
        "/others/*/evidence": "quote_verbatim@1", "/notes/*": "quote_verbatim@1",
        "/terms/*": "quote_verbatim@1",
    }  # fmt: skip
    assert definition["contract"]["confidence"] == "*"

    class Strict(Contract):
        a: Quote

    class Folded(Contract):
        a: Annotated[str, Field(min_length=1, max_length=300), Quoted(fold_whitespace=True)]

    Folded.__name__ = Strict.__name__
    assert pipeline(Strict).version != pipeline(Folded).version


def test_a_contract_that_does_not_look_keeps_its_version() -> None:
    class Plainly(Contract):
        a: str

        @rule(version=1)
        def short(self) -> bool:
            return len(self.a) < 9

    definition: dict[str, Any] = pipeline(Plainly).definition
    assert "quotes" not in definition["contract"]
    assert definition["rules"] == {"Plainly.short": {"version": 1, "fields": []}}
    assert not plan_of(Plainly).sees_text
    assert isinstance(judge(Plainly, '{"a": "x"}'), Accepted)


def test_quotes_are_sensitive_text_and_told_to_the_model() -> None:
    assert "/total/evidence" in plan_of(Bill).sensitive_paths
    assert "copied exactly from the text of the request" in correction_text(Bill)


def test_mistakes_are_told_at_definition() -> None:
    with pytest.raises(TypeError, match="self, or self and the record's text"):

        class Many(Contract):
            a: int

            @rule(version=1)
            def both(self, text: str, more: str) -> bool:
                return text == more

    with pytest.raises(TypeError, match="Quoted is for text"):

        class Number(Contract):
            a: Annotated[int, Quoted()]
