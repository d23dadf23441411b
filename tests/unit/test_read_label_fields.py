"""The order of a label's fields, which fields are hidden, and how values are compared with gold."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Literal

import pytest
from example_contracts import RECEIPT_TEXT, Receipt, Ticket
from pydantic import Field

from assay import Accepted, Contract, Pipeline, Plain, Prompt, Route, judge
from assay.cli.compared_field import ComparedField, compared_field
from assay.cli.database_url import masked
from assay.cli.json_text import to_json
from assay.cli.label_fields import LabelFields, label_fields
from assay.cli.tables import shown
from assay.domain.failures import ConfigurationError
from assay.domain.json_text import Json, Number, read_json


class Card(Contract):
    zone: Literal["a", "b"]
    by: Literal["card"]
    digits: Annotated[str, Plain()]


class Cash(Contract):
    coins: list[int]
    by: Literal["cash"]


class Payment(Contract):
    paid: Card | Cash | None
    notes: list[str]
    amounts: dict[Literal["net", "tax"], Decimal]
    pair: tuple[Cash, int]
    again: Annotated[Literal[1, 2] | None, Field(description="times")]
    odd_key: Annotated[str, Field(alias="a/b")]


PAYMENT = (
    '{"paid":{"zone":"a","by":"card","digits":"12"},"notes":["x"],"amounts":{"tax":1.50,"net":2},'
    '"pair":[{"coins":[1],"by":"cash"},7],"again":2,"a/b":"hidden"}'
)


def definition(contract: type[Contract]) -> dict[str, object]:
    """A definition as the database gives it back: keys in jsonb's order."""
    pipeline = Pipeline(name="p", contract=contract, model="openai:m", prompt=Prompt("x"), route=Route(None))
    stored: dict[str, object] = json.loads(json.dumps(pipeline.definition), object_pairs_hook=_as_jsonb)
    return stored


def _as_jsonb(pairs: list[tuple[str, object]]) -> dict[str, object]:
    return dict(sorted(pairs, key=lambda pair: (len(pair[0]), pair[0])))


def forgotten(value: Json) -> Json:
    """A value as jsonb gives it back."""
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: (len(key), key))
        return {key: forgotten(value[key]) for key in keys}
    return [forgotten(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(("contract", "text"), [(Receipt, RECEIPT_TEXT), (Payment, PAYMENT)])
def test_labels_get_the_contracts_order_back(contract: type[Contract], text: str) -> None:
    accepted = judge(contract, text)
    assert isinstance(accepted, Accepted)
    fields = label_fields(definition(contract))
    for whole in (accepted.label_json, accepted.plain_json):
        ordered, lost = _compact(read_json(whole)), forgotten(read_json(whole))
        if contract is Payment:  # a map has no order of its own
            ordered = ordered.replace('{"tax": 1.50, "net": 2}', '{"net": 2, "tax": 1.50}')
        assert _compact(lost) != ordered
        assert _compact(fields.arrange(lost)) == ordered


def _compact(value: Json) -> str:
    return to_json(value)


def test_hidden_fields_are_those_left_out_whole() -> None:
    assert label_fields(definition(Ticket)).hidden == {"reason"}
    payment = label_fields(definition(Payment))
    assert payment.keys == ("paid", "notes", "amounts", "pair", "again", "a/b")
    assert payment.hidden == {"notes", "a/b"}
    receipt = label_fields(definition(Receipt))
    assert receipt.hidden == {"company", "address"}
    assert "/lines/*/description" in receipt.sensitive
    with pytest.raises(ConfigurationError, match="without its contract"):
        label_fields({"model": "m"})


def test_the_compared_field_is_the_contracts_label_or_the_one_named() -> None:
    ticket = compared_field(definition(Ticket), Ticket, None)
    assert (ticket.key, ticket.closed) == ("category", ("billing", "technical", "other", "unclear"))
    total = compared_field(definition(Receipt), Receipt, "total")
    assert (total.numeric, total.closed, total.sensitive) == (True, None, False)
    assert compared_field(definition(Payment), Payment, "odd_key").key == "a/b"
    again = compared_field(definition(Payment), Payment, "again")
    assert again.closed == ("1", "2")
    assert compared_field(definition(Receipt), Receipt, "company").sensitive
    for contract, name in ((Receipt, None), (Ticket, "nothing")):
        with pytest.raises(ConfigurationError):
            compared_field(definition(contract), contract, name)


@pytest.mark.parametrize(
    ("gold", "value", "equal"),
    [
        ("12.5", Number("12.50"), True),
        ("1e2", Number("100"), True),
        ("0", Number("-0.0"), True),
        ("12.5", Number("12.51"), False),
        ("twelve", Number("12"), False),
        ("1e999999999", Number("1"), False),
        ("NaN", Number("1"), False),
        ("null", None, True),
        ("true", True, True),
    ],
)
def test_numbers_are_compared_by_value(gold: str, value: Json, equal: bool) -> None:
    field = ComparedField("total", sensitive=False, numeric=True, closed=None)
    assert (field.gold_label(gold) == field.label(value)) is equal


def test_text_is_compared_as_it_is() -> None:
    field = ComparedField("total", sensitive=False, numeric=False, closed=None)
    assert field.gold_label("012.50") == field.label("012.50") == "012.50"
    with pytest.raises(ConfigurationError, match="no single value"):
        field.label(["a"])


def test_json_keeps_numbers_and_text() -> None:
    value = {"n": Number("1.50"), "d": Decimal("1E-7"), "t": 'a"\n€', "at": datetime(2026, 1, 2, tzinfo=UTC)}
    assert to_json([value, True, None, 3]) == (
        '[{"n": 1.50, "d": 0.0000001, "t": "a\\"\\n€", "at": "2026-01-02T00:00:00+00:00"}, true, null, 3]'
    )
    assert (
        to_json(LabelFields((), frozenset(), (), {}))
        == '{"keys": [], "hidden": [], "sensitive": [], "schema": {}}'
    )
    with pytest.raises(TypeError, match="bytes has no JSON"):
        to_json(b"x")


def test_what_is_shown_cannot_steer_a_terminal() -> None:
    assert shown("a\x1b[31m\u202eb\nc") == "a\\x1b[31m\\u202eb\\nc"
    assert shown("Zürich 東京 [bold]") == "Zürich 東京 [bold]"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://me:s3@cret@db:5432/x", "postgresql://me:***@db:5432/x"),
        (
            "postgresql://me@db/x?sslmode=require&password=s3cret",
            "postgresql://me@db/x?sslmode=require&password=***",
        ),
        ("postgresql:///x?host=/tmp/a", "postgresql:///x?host=/tmp/a"),
    ],
)
def test_urls_are_shown_without_passwords(url: str, expected: str) -> None:
    assert masked(url) == expected
