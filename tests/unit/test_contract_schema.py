"""The schema for structured output and the fixed correction text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Literal

from example_contracts import Receipt, Ticket
from pydantic import Field

from assay import BlankAllowed, Contract, DecimalText
from assay.domain.contract_schema import contract_schema
from assay.domain.correction import correction_text


class Leaf(Contract):
    size: Literal[1, 2, None]
    note: Annotated[str, BlankAllowed()]


class Branch(Contract):
    amount: DecimalText = Field(description="what was paid")
    twigs: list[Branch | Leaf]
    by_name: Annotated[dict[str, Leaf], Field(min_length=1)]
    pair: tuple[int, bool]


def objects(schema: object) -> Iterator[dict[str, object]]:
    if isinstance(schema, dict):
        if "properties" in schema:
            yield schema
        for value in schema.values():
            yield from objects(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from objects(value)


def test_ticket() -> None:
    assert contract_schema(Ticket) == {
        "type": "object",
        "properties": {
            "category": {"type": "string", "enum": ["billing", "technical", "other", "unclear"]},
            "confidence": {"type": "number", "minimum": 0, "maximum": 1},
            "reason": {"type": "string", "minLength": 1, "maxLength": 300},
        },
        "required": ["category", "confidence", "reason"],
        "additionalProperties": False,
    }


def test_every_object_is_closed_and_requires_all() -> None:
    for contract in (Ticket, Receipt, Branch):
        found = list(objects(contract_schema(contract)))
        assert found
        for schema in found:
            assert schema["additionalProperties"] is False
            assert isinstance(schema["properties"], dict)
            assert schema["required"] == list(schema["properties"])


def test_decimals_are_numbers_and_decimal_texts_strings() -> None:
    receipt, branch = contract_schema(Receipt), contract_schema(Branch)
    assert receipt["properties"]["total"] == {"type": "number", "minimum": 0}
    assert receipt["properties"]["issued"] == {"type": "string", "format": "date"}
    assert receipt["properties"]["address"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert receipt["properties"]["lines"] == {
        "type": "array",
        "items": {"$ref": "#/$defs/LineItem"},
        "minItems": 1,
    }
    assert branch["properties"]["amount"]["type"] == "string"
    assert branch["properties"]["amount"]["description"] == "what was paid"
    assert branch["$defs"].keys() == {"Branch", "Leaf"}
    assert branch["$defs"]["Leaf"]["properties"]["size"] == {
        "type": ["integer", "null"],
        "enum": [1, 2, None],
    }
    assert branch["properties"]["by_name"]["minProperties"] == 1
    assert branch["properties"]["pair"]["prefixItems"] == [{"type": "integer"}, {"type": "boolean"}]


def test_two_contracts_of_one_name_are_told_apart() -> None:
    def other() -> type[Contract]:
        class Leaf(Contract):
            b: int

        return Leaf

    pair = type("Pair", (Contract,), {"__annotations__": {"x": Leaf, "y": other()}, "__module__": __name__})
    assert issubclass(pair, Contract)
    schema = contract_schema(pair)
    assert schema["properties"]["x"] == {"$ref": "#/$defs/Leaf"}
    assert schema["properties"]["y"] == {"$ref": "#/$defs/Leaf_2"}
    assert schema["$defs"]["Leaf_2"]["required"] == ["b"]


def test_the_schema_is_json_and_always_the_same() -> None:
    assert json.dumps(contract_schema(Receipt)) == json.dumps(contract_schema(Receipt))


def test_the_correction_names_fields_and_rules() -> None:
    text = correction_text(Receipt)
    assert text == correction_text(Receipt)
    for expected in (
        "exactly one JSON object",
        '- "company": text, not blank',
        '- "address": text, not blank or null',
        '- "total": a decimal number with its exact digits, not text, at least 0, at most 2 decimal places',
        '- "currency": text, not blank, matching the pattern ^[A-Z]{3}$',
        '- rule lines_add_up on "total", "lines"',
        "Fields of LineItem:",
        '- "quantity": an integer, not text, at least 1',
    ):
        assert expected in text
    assert '- "category": one of "billing", "technical", "other", "unclear"' in correction_text(Ticket)
    assert '- "note": text, may be empty' in correction_text(Branch)
