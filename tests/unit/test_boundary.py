"""Every code of the boundary, its precedence, and what an accepted value holds."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from decimal import Decimal

import pytest
from example_contracts import RECEIPT_TEXT, TICKET, LineItem, Receipt, Ticket, ticket
from hypothesis import given
from hypothesis import strategies as st

from assay import Accepted, Rejected, judge
from assay.domain.rejection import CODE_RULES, RejectionCode, RejectionKind


def code(response: str | bytes, *, truncated: bool = False) -> str:
    verdict = judge(Ticket, response, truncated=truncated)
    return verdict.code.value if isinstance(verdict, Rejected) else "accepted"


def errors(verdict: Accepted | Rejected) -> list[tuple[str, str]]:
    assert isinstance(verdict, Rejected)
    return [(error.path, error.type) for error in verdict.errors]


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (ticket(), "accepted"),
        (f" \n{ticket()}\t\r\n", "accepted"),
        (ticket(confidence=1), "accepted"),
        (ticket(confidence=0), "accepted"),
        ("", "response_empty"),
        (" \n\t\u00a0\u2003", "response_empty"),
        (b"", "response_empty"),
        ("x" * 8193, "response_too_large"),
        (ticket(reason="é" * 4097), "response_too_large"),
        (f"以下是结果：{ticket()}", "json_invalid"),
        (f"Here is the result: {ticket()}", "json_invalid"),
        (f"```json\n{ticket()}\n```", "json_invalid"),
        (f"\ufeff{ticket()}", "json_invalid"),
        (b"\xef\xbb\xbf" + ticket().encode(), "json_invalid"),
        (ticket() * 2, "json_invalid"),
        (ticket()[:-1], "json_invalid"),
        (ticket(confidence=float("nan")), "json_invalid"),
        (ticket(confidence=float("inf")), "json_invalid"),
        (b"\xff\xfe", "json_invalid"),
        (b'"\xed\xa0\x80"', "json_invalid"),
        ('{"category":"billing","category":"billing","confidence":1,"reason":"x"}', "json_duplicate_key"),
        ('{"category":"billing","\\u0063ategory":"other"}', "json_duplicate_key"),
        ('{"category":"billing","category":"other"} x', "json_invalid"),
        (ticket(extra=1), "schema_extra_field"),
        (ticket(extra=1, confidence="0.9"), "schema_extra_field"),
        (ticket(confidence="0.93"), "schema_type_error"),
        (ticket(confidence=True), "schema_type_error"),
        (ticket(confidence=None), "schema_type_error"),
        (ticket(category=None), "schema_type_error"),
        (ticket(category=3), "schema_type_error"),
        (ticket(reason=["x"]), "schema_type_error"),
        (ticket(reason=None, category="Billing"), "schema_type_error"),
        ("[]", "schema_type_error"),
        ("null", "schema_type_error"),
        ('"billing"', "schema_type_error"),
        (ticket(category="Billing"), "schema_validation_error"),
        (ticket(category="billing "), "schema_validation_error"),
        (ticket(confidence=1.01), "schema_validation_error"),
        (ticket(confidence=-0.01), "schema_validation_error"),
        ('{"category":"billing","confidence":1}', "schema_validation_error"),
        (ticket(reason=""), "schema_validation_error"),
        (ticket(reason="\u200b\u3164"), "schema_validation_error"),
        (ticket(reason="x" * 301), "schema_validation_error"),
        (ticket(reason="a\x00b"), "schema_validation_error"),
        (ticket(reason="a\ud800b"), "schema_validation_error"),
        ('{"category":"billing","confidence":1,"reason":"a\ud800b"}', "schema_validation_error"),
        ('{"category":"billing","confidence":1e999,"reason":"x"}', "schema_validation_error"),
        ('{"category":"billing","confidence":%s,"reason":"x"}' % ("9" * 5000), "schema_validation_error"),
        ('{"category":"billing","confidence":1e-999,"reason":"x"}', "schema_validation_error"),
        (
            '{"category":"billing","confidence":0.99999999999999999999,"reason":"x"}',
            "schema_validation_error",
        ),
        ("[" * 4000 + "]" * 4000, "schema_type_error"),
        ('{"category":' * 500 + "1" + "}" * 500, "schema_type_error"),
    ],
)
def test_codes(response: str | bytes, expected: str) -> None:
    assert code(response) == expected
    if isinstance(response, str) and "\ud800" not in response:
        assert code(response.encode()) == expected


def test_order_of_the_checks_before_parsing() -> None:
    assert code("x" * 9000, truncated=True) == "response_too_large"
    assert code("", truncated=True) == "response_truncated"
    assert code(ticket(), truncated=True) == "response_truncated"
    assert code(b"\xff", truncated=True) == "response_truncated"


def test_the_limit_is_in_bytes_and_inclusive() -> None:
    exact = ticket(reason="é" * 300)
    size = len(exact.encode())
    assert isinstance(judge(Ticket, exact, max_response_bytes=size), Accepted)
    smaller = judge(Ticket, exact, max_response_bytes=size - 1)
    assert isinstance(smaller, Rejected)
    assert smaller.code is RejectionCode.RESPONSE_TOO_LARGE
    raw = '{"reason":"\ud800"}'
    assert isinstance(judge(Ticket, raw, max_response_bytes=len(raw) + 1), Rejected)
    assert errors(judge(Ticket, raw, max_response_bytes=len(raw) + 1)) == [("", "response_too_large")]


def test_the_table_of_codes_is_the_one_of_the_specification() -> None:
    semantic, unexpected = RejectionCode.SEMANTIC_INVALID, RejectionCode.UNEXPECTED_PARSE_ERROR
    incomplete = {RejectionCode.RESPONSE_EMPTY, RejectionCode.RESPONSE_TRUNCATED}
    assert set(CODE_RULES) == set(RejectionCode)
    assert {c for c, r in CODE_RULES.items() if not r.correctable} == {semantic, unexpected}
    assert {c for c, r in CODE_RULES.items() if r.retryable} == incomplete
    assert {c for c, r in CODE_RULES.items() if r.kind is RejectionKind.INCOMPLETE} == incomplete
    assert {c for c, r in CODE_RULES.items() if r.kind is RejectionKind.SEMANTIC} == {semantic}


def test_findings_are_listed_with_the_deciding_code_first() -> None:
    verdict = judge(Ticket, ticket(category="none", confidence="1", invented=1))
    assert errors(verdict) == [
        ("/*", "extra_forbidden"),
        ("/confidence", "float_type"),
        ("/category", "literal_error"),
    ]


def test_findings_are_bounded_and_counted() -> None:
    verdict = judge(Ticket, json.dumps({**TICKET, **{f"k{n}": n for n in range(500)}}))
    assert isinstance(verdict, Rejected)
    assert len(verdict.errors) == 50
    assert verdict.error_count == 500
    assert verdict.more_errors


def test_an_accepted_ticket() -> None:
    verdict = judge(Ticket, '{"reason":"caf\\u00e9 \\ud83d\\ude00","confidence":0.850,"category":"unclear"}')
    assert isinstance(verdict, Accepted)
    assert verdict.label_json == '{"category":"unclear","confidence":0.850,"reason":"café 😀"}'
    assert verdict.plain_json == '{"category":"unclear","confidence":0.850}'
    assert verdict.has_sensitive
    assert verdict.confidence == Decimal("0.850")
    assert verdict.insufficient_evidence
    assert verdict.value == Ticket(category="unclear", confidence=0.85, reason="café 😀")
    assert "café" not in repr(verdict)


def test_an_accepted_receipt_keeps_its_digits() -> None:
    verdict = judge(Receipt, RECEIPT_TEXT)
    assert isinstance(verdict, Accepted)
    assert verdict.confidence is None
    assert not verdict.insufficient_evidence
    assert isinstance(verdict.value, Receipt)
    assert verdict.value.total == Decimal("60.30")
    assert str(verdict.value.total) == "60.30"
    assert verdict.value.issued == date(2018, 3, 25)
    assert verdict.value.lines == [LineItem(description="cement", quantity=2, amount=Decimal("60.30"))]
    assert verdict.plain_json == (
        '{"issued":"2018-03-25","address":null,"currency":"MYR","total":60.30,'
        '"lines":[{"quantity":2,"amount":60.30}]}'
    )
    assert json.loads(verdict.label_json) == json.loads(RECEIPT_TEXT)


def test_business_rules_differ_from_schema_errors() -> None:
    wrong_sum = judge(Receipt, RECEIPT_TEXT.replace('"total": 60.30', '"total": 60.31'))
    assert isinstance(wrong_sum, Rejected)
    assert (wrong_sum.code.value, wrong_sum.kind.value, wrong_sum.correctable) == (
        "semantic_invalid",
        "semantic",
        False,
    )
    assert errors(wrong_sum) == [("/total", "lines_add_up@1"), ("/lines", "lines_add_up@1")]
    too_early = judge(Receipt, RECEIPT_TEXT.replace("2018", "1918"))
    assert errors(too_early) == [("/issued", "plausible_date@2")]
    no_date = judge(Receipt, RECEIPT_TEXT.replace("2018-03-25", "2018-02-30").replace("60.30,", "60.31,"))
    assert errors(no_date) == [("/issued", "date_format")]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ('"total": 60.30', '"total": "60.30"', ("/total", "decimal_type")),
        ('"total": 60.30', '"total": 60.305', ("/total", "decimal_max_places")),
        ('"total": 60.30', '"total": -1', ("/total", "greater_than_equal")),
        ('"total": 60.30', '"total": 1e400', ("/total", "number_beyond_float")),
        ('"total": 60.30', '"total": 9007199254740993', ("/total", "number_not_interoperable")),
        ('"total": 60.30', '"total": 0.3000000000000000001', ("/total", "number_not_interoperable")),
        ('"quantity": 2', '"quantity": 2.0', ("/lines/0/quantity", "int_type")),
        ('"quantity": 2', '"quantity": true', ("/lines/0/quantity", "int_type")),
        ('"quantity": 2', '"quantity": 0', ("/lines/0/quantity", "greater_than_equal")),
        ('"quantity": 2', '"quantity": 9007199254740993', ("/lines/0/quantity", "number_not_interoperable")),
        ('"quantity": 2', '"quantity": ' + "1" * 400, ("/lines/0/quantity", "number_beyond_float")),
        ('"quantity": 2', '"quantity": 2, "unit": "bag"', ("/lines/0/*", "extra_forbidden")),
        ('"quantity": 2, ', "", ("/lines/0/quantity", "missing")),
        ('"cement"', '"\u2800"', ("/lines/0/description", "text_blank")),
        ('"MYR"', '"myr"', ("/currency", "string_pattern_mismatch")),
        ('"2018-03-25"', '"2018-03-25T00:00:00"', ("/issued", "date_format")),
        ('"2018-03-25"', "1521936000", ("/issued", "string_type")),
        ('"2018-03-25"', '"1521936000"', ("/issued", "date_format")),
        ('"address": null', '"address": 5', ("/address", "string_type")),
        ('"address": null', '"address": ""', ("/address", "text_blank")),
    ],
)
def test_paths_and_types_in_nested_contracts(before: str, after: str, expected: tuple[str, str]) -> None:
    assert before in RECEIPT_TEXT
    assert errors(judge(Receipt, RECEIPT_TEXT.replace(before, after))) == [expected]


TOKEN = "zq-planted-7f3a"


@pytest.mark.parametrize(
    "response",
    [
        ticket(category=TOKEN),
        ticket(reason=TOKEN, confidence="x"),
        ticket(**{TOKEN: TOKEN}),
        json.dumps({**TICKET, "reason": {TOKEN: [TOKEN]}}),
        '{"TOKEN":1,"TOKEN":2}'.replace("TOKEN", TOKEN),
        '{"category":{"TOKEN":{"a":1,"a":2}}}'.replace("TOKEN", TOKEN),
        TOKEN,
        f'"{TOKEN}"',
        f'["{TOKEN}"',
        TOKEN * 1000,
        ticket(confidence=2, reason=TOKEN + "\x00"),
    ],
)
def test_a_rejection_holds_nothing_of_the_response(response: str) -> None:
    for contract in (Ticket, Receipt):
        verdict = judge(contract, response)
        assert isinstance(verdict, Rejected)
        assert TOKEN not in repr(verdict)


@given(st.binary(max_size=200))
def test_any_bytes_get_a_verdict(response: bytes) -> None:
    judge_is_total(response)


@given(st.text(alphabet=st.characters(exclude_categories=()), max_size=100))
def test_any_text_gets_a_verdict(response: str) -> None:
    judge_is_total(response)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
VALUES = st.recursive(
    SCALARS,
    lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=3), v, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(["category", "confidence", "reason", "more"]), VALUES))
def test_any_object_gets_a_verdict(value: dict[str, object]) -> None:
    judge_is_total(json.dumps({**TICKET, **value}))


def judge_is_total(response: str | bytes) -> None:
    verdict = judge(Ticket, response)
    if isinstance(verdict, Rejected):
        assert verdict.code is not RejectionCode.UNEXPECTED_PARSE_ERROR
        assert verdict.errors
    else:
        again = judge(Ticket, verdict.label_json)
        assert isinstance(again, Accepted)
        assert again.label_json == verdict.label_json
        verdict.label_json.encode("utf-8")


@given(st.floats(0, 1), st.text(min_size=1, max_size=300))
def test_what_is_accepted_is_what_was_said(confidence: float, reason: str) -> None:
    verdict = judge(Ticket, ticket(confidence=confidence, reason=reason))
    if isinstance(verdict, Accepted):
        assert json.loads(verdict.label_json) == {**TICKET, "confidence": confidence, "reason": reason}
        assert verdict.confidence == Decimal(repr(confidence))


@pytest.mark.parametrize(
    "build",
    [
        lambda size: '{"category":"billing","confidence":1,"reason":"' + "x" * size + '"}',
        lambda size: " " * size,
        lambda size: "[" + "1," * (size // 20) + "1]",
        lambda size: '{"reason":"' + "\u200b" * (size // 3) + '"}',
        lambda size: '{"confidence":' + "9" * size + "}",
        lambda size: '{"confidence":0.' + "0" * size + "1}",
    ],
)
def test_responses_of_50_mb(build: Callable[[int], str]) -> None:
    response = build(50_000_000)
    verdict = judge(Ticket, response, max_response_bytes=100_000_000)
    assert isinstance(verdict, Rejected)
    assert verdict.code is not RejectionCode.UNEXPECTED_PARSE_ERROR
    assert errors(judge(Ticket, response)) == [("", "response_too_large")]


@pytest.mark.parametrize("opening", ["[", '{"a":', '{"reason":[', '{"a":1,"a":'])
def test_nesting_of_100_000(opening: str) -> None:
    closing = "".join("]" if char == "[" else "}" for char in reversed(opening) if char in "[{")
    response = opening * 100_000 + "1" + closing * 100_000
    verdict = judge(Ticket, response, max_response_bytes=10_000_000)
    assert isinstance(verdict, Rejected)
    expected = {
        "[": "schema_type_error",
        '{"a":1,"a":': "json_duplicate_key",
        '{"reason":[': "schema_type_error",
    }
    assert verdict.code.value == expected.get(opening, "schema_extra_field")
    assert errors(judge(Ticket, opening * 100_000, max_response_bytes=10_000_000)) == [("", "json_invalid")]
