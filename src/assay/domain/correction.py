"""The one fixed text of a second pass: it names the contract's fields and rules, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from assay.domain.contract import Contract, plan_of
from assay.domain.nodes import (
    ChoiceNode,
    FormatNode,
    ListNode,
    MapNode,
    Node,
    NumberNode,
    TextNode,
    TupleNode,
)
from assay.domain.objects import ObjectNode, UnionNode

_OPENING = (
    "Your answer to the request was not valid. Answer the same request again with exactly one JSON object "
    "and nothing else: no prose before or after it, no code fence, no comment, no key twice."
)
_CLOSING = "Give every field, no other field, and no null unless it is allowed above."

_FORMATS: Mapping[str, str] = {
    "date": "a date as text, YYYY-MM-DD",
    "date-time": "a date and time as text, YYYY-MM-DDTHH:MM:SS with an optional offset",
    "time": "a time as text, HH:MM:SS",
    "uuid": "a UUID as text",
    "decimal": 'a decimal number as text in plain notation, such as "60.30"',
}


def correction_text(contract: type[Contract]) -> str:
    """The text for a contract, always the same: field by field what is allowed. It holds no user data."""
    plan = plan_of(contract)
    lines = [_OPENING, "Fields of the object:", *_fields(plan.root)]
    for node in plan.objects:
        if node is not plan.root:
            lines += [f"Fields of {node.contract.__name__}:", *_fields(node)]
    return "\n".join([*lines, _CLOSING])


def json_text(value: object) -> str:
    """A name or a value as JSON writes it, other scripts readable."""
    return json.dumps(value, ensure_ascii=False)


def _fields(node: ObjectNode) -> Iterator[str]:
    for field in node.fields:
        yield f"- {json_text(field.key)}: {_words(field.node)}"
    for rule in node.rules:
        about = ", ".join(json_text(node.field(name).key) for name in rule.fields)
        yield f"- rule {rule.name}" + (f" on {about}" if about else "")


def _words(node: Node) -> str:
    match node:
        case ObjectNode():
            words = f"an object {node.contract.__name__}"
        case UnionNode():
            words = " or ".join(_words(member) for member in node.members)
        case ListNode():
            words = f"an array, each item: {_words(node.item)}" + _bounds(node.keywords, "items")
        case TupleNode():
            words = "an array of: " + "; ".join(_words(item) for item in node.items)
        case MapNode():
            words = f"an object, each value: {_words(node.value)}" + _bounds(node.keywords, "keys")
        case _:
            words = _scalar_words(node)
    return words


def _scalar_words(node: Node) -> str:
    match node:
        case ChoiceNode():
            words = "one of " + ", ".join(json_text(raw) for raw, _ in node.choices)
        case TextNode():
            blank = "text, may be empty" if node.blank_allowed else "text, not blank"
            words = blank + _bounds(node.keywords, "characters")
            if node.quoted is not None:
                words += ", copied exactly from the text of the request"
        case FormatNode():
            words = _FORMATS[node.name] + _bounds(node.keywords, "characters")
        case NumberNode():
            words = f"{_NUMBERS[node.name]}, not text" + _bounds(node.keywords, "digits")
        case _:
            words = "true or false" if bool in node.kinds else "null"
    return words


_NUMBERS: Mapping[str, str] = {
    "int": "an integer",
    "float": "a number",
    "decimal": "a decimal number with its exact digits",
}

_PHRASES: Mapping[str, str] = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "minLength": "at least {} {unit}",
    "maxLength": "at most {} {unit}",
    "maxDigits": "at most {} digits",
    "decimalPlaces": "at most {} decimal places",
    "pattern": "matching the pattern {}",
}


def _bounds(keywords: Mapping[str, Any], unit: str) -> str:
    phrases = [text.format(keywords[word], unit=unit) for word, text in _PHRASES.items() if word in keywords]
    return "".join(f", {phrase}" for phrase in phrases)
