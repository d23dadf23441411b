"""What each wire puts into a request: parameters, system prompt, token limit, structured output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from assay import Confidence, Contract
from assay.adapters.providers.anthropic_messages import MessagesWire
from assay.adapters.providers.anthropic_schema import output_schema
from assay.adapters.providers.openai_responses import ResponsesWire
from assay.domain.contract_schema import contract_schema
from assay.ports import ModelRequest

SCHEMA: dict[str, Any] = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}


def request(**parameters: object) -> ModelRequest:
    return ModelRequest(
        record_id="r",
        input_version=1,
        messages=(("system", "Label it."), ("system", "Strictly."), ("user", "text")),
        json_schema=SCHEMA,
        schema_name="Ticket",
        parameters=parameters,
        idempotency_key="k",
    )


def sent(**parameters: object) -> dict[str, object]:
    return MessagesWire("m", structured_output=True, answer_bytes=4000).fields(request(**parameters))


def test_messages_have_the_system_apart_and_a_limit_that_cuts_no_good_answer() -> None:
    assert sent(temperature=0, model="other", stream=True) == {
        "temperature": 0,
        "model": "m",
        "max_tokens": 4000,
        "system": "Label it.\n\nStrictly.",
        "messages": [{"role": "user", "content": "text"}],
        "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}},
    }


def test_a_stated_limit_stands_and_a_thinking_budget_comes_on_top() -> None:
    assert sent(max_tokens=50)["max_tokens"] == 50
    assert sent(thinking={"type": "enabled", "budget_tokens": 2048})["max_tokens"] == 6048
    assert sent(thinking={"type": "adaptive"})["max_tokens"] == 4000


def test_other_output_settings_are_kept_beside_the_format() -> None:
    config = sent(output_config={"effort": "low"})["output_config"]
    assert config == {"effort": "low", "format": {"type": "json_schema", "schema": SCHEMA}}


def test_responses_are_not_stored_and_keep_other_text_settings() -> None:
    wire = ResponsesWire("m", structured_output=True)
    fields = wire.fields(request(text={"verbosity": "low"}, max_output_tokens=9, input="x"))
    assert fields == {
        "store": False,
        "max_output_tokens": 9,
        "model": "m",
        "input": [
            {"role": "system", "content": "Label it."},
            {"role": "system", "content": "Strictly."},
            {"role": "user", "content": "text"},
        ],
        "text": {
            "verbosity": "low",
            "format": {"type": "json_schema", "name": "Ticket", "strict": True, "schema": SCHEMA},
        },
    }
    assert wire.fields(request(store=True))["store"] is True
    assert "text" not in ResponsesWire("m", structured_output=False).fields(request())


class Line(Contract):
    name: Annotated[str, Field(max_length=40, description="What was bought.")]
    amount: Annotated[float, Field(ge=0)]


class Invoice(Contract):
    kind: Literal["invoice", "receipt"]
    lines: Annotated[list[Line], Field(min_length=1)]
    confidence: Confidence


class Open(Contract):
    counts: dict[str, int]


class Tree(Contract):
    children: list[Tree]


def test_bounds_are_told_in_words_and_nothing_else_is_lost() -> None:
    schema = output_schema(contract_schema(Invoice))
    assert schema is not None
    assert keywords(schema) <= {
        "type", "properties", "required", "additionalProperties", "enum", "items", "$ref", "$defs",
        "description", "anyOf", "format",
    }  # fmt: skip
    line = at(schema, "$defs", "Line", "properties")
    assert at(line, "name") == {"type": "string", "description": at(line, "name")["description"]}
    assert at(line, "name")["description"].startswith("What was bought. (")
    assert "maxLength: 40" in at(line, "name")["description"]
    assert at(line, "amount") == {"type": "number", "description": "(minimum: 0)"}
    assert at(schema, "properties", "kind")["enum"] == ["invoice", "receipt"]
    assert at(schema, "required") == ["kind", "lines", "confidence"]


def test_what_the_vendor_cannot_constrain_is_left_to_the_prompt_and_the_boundary() -> None:
    for contract in (Open, Tree):
        assert output_schema(contract_schema(contract)) is None
    pair = {"type": "array", "prefixItems": [{"type": "string"}], "items": False}
    assert output_schema({**SCHEMA, "properties": {"pair": pair}}) is None


def keywords(schema: object) -> set[str]:
    """Every keyword used, properties' and definitions' own names aside."""
    if isinstance(schema, list):
        return set().union(*map(keywords, schema))
    if not isinstance(schema, Mapping):
        return set()
    found = set(schema)
    for name, inner in schema.items():
        named = name in ("properties", "$defs") and isinstance(inner, Mapping)
        for child in inner.values() if named else (inner,):
            found |= keywords(child)
    return found


def at(value: Any, *path: str) -> Any:
    for name in path:
        value = value[name]
    return value
