"""JSON Schema of a contract, for a provider's structured output and for the digest.

It is made from assay's own reading of the contract, not by pydantic, so that it does not change with
pydantic's version. Every object forbids other fields and requires all of its own; a Decimal is a number,
`DecimalText` a string with a pattern. Limits: OpenAI's strict mode takes no map with free keys
(`dict[str, X]`), no array with a different type per place, and ignores or refuses some keywords on some
models; the boundary checks everything again in any case.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

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

Schema = dict[str, Any]

_NUMBER_WORDS: Final = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf")
_TEXT_WORDS: Final = ("minLength", "maxLength", "pattern")
_DECIMAL_PATTERN: Final = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?$"


def contract_schema(contract: type[Contract]) -> Schema:
    """The JSON Schema (2020-12) of a contract. Contracts inside it are in `$defs`."""
    plan = plan_of(contract)
    names = _names(plan.objects)
    schema = _object(plan.root, names)
    others = {names[node]: _object(node, names) for node in plan.objects if node is not plan.root}
    if _refers_to_root(plan.objects, plan.root):
        others[names[plan.root]] = _object(plan.root, names)
    return {**schema, "$defs": others} if others else schema


def _names(objects: tuple[ObjectNode, ...]) -> dict[ObjectNode, str]:
    """One name per contract class; equal class names are numbered."""
    names: dict[ObjectNode, str] = {}
    for node in objects:
        name, number = node.contract.__name__, 1
        while name in names.values():
            number += 1
            name = f"{node.contract.__name__}_{number}"
        names[node] = name
    return names


def _refers_to_root(objects: tuple[ObjectNode, ...], root: ObjectNode) -> bool:
    return any(root in _children(field.node) for node in objects for field in node.fields)


def _children(node: Node) -> list[Node]:
    """The node and what it holds, down to contracts."""
    inner: list[Node] = []
    if isinstance(node, ListNode):
        inner = [node.item]
    elif isinstance(node, TupleNode):
        inner = list(node.items)
    elif isinstance(node, MapNode):
        inner = [node.value]
    elif isinstance(node, UnionNode):
        inner = list(node.members)
    return [node, *(found for child in inner for found in _children(child))]


def _object(node: ObjectNode, names: dict[ObjectNode, str]) -> Schema:
    return {
        "type": "object",
        "properties": {
            field.key: _described(
                _schema(field.node, names), node.contract.model_fields[field.name].description
            )
            for field in node.fields
        },
        "required": [field.key for field in node.fields],
        "additionalProperties": False,
    }


def _described(schema: Schema, description: str | None) -> Schema:
    if description is None or "$ref" in schema:
        return schema
    return {**schema, "description": description}


def _schema(node: Node, names: dict[ObjectNode, str]) -> Schema:
    schema: Schema
    match node:
        case ObjectNode():
            schema = {"$ref": f"#/$defs/{names[node]}"}
        case UnionNode():
            schema = {"anyOf": [_schema(member, names) for member in node.members]}
        case ListNode():
            schema = {"type": "array", "items": _schema(node.item, names), **_lengths(node.keywords, "Items")}
        case TupleNode():
            schema = _tuple([_schema(item, names) for item in node.items])
        case MapNode():
            schema = {
                "type": "object",
                "additionalProperties": _schema(node.value, names),
                "propertyNames": _schema(node.key, names),
                **_lengths(node.keywords, "Properties"),
            }
        case _:
            schema = _scalar(node)
    return schema


def _scalar(node: Node) -> Schema:
    schema: Schema
    match node:
        case ChoiceNode():
            schema = _choice(node)
        case TextNode():
            schema = {"type": "string", **_only(node.keywords, _TEXT_WORDS)}
        case FormatNode():
            schema = _format(node)
        case NumberNode():
            kind = "integer" if node.name == "int" else "number"
            schema = {"type": kind, **_only(node.keywords, _NUMBER_WORDS)}
        case _:
            schema = {"type": "boolean" if bool in node.kinds else "null"}
    return schema


def _tuple(places: list[Schema]) -> Schema:
    size = len(places)
    return {"type": "array", "prefixItems": places, "items": False, "minItems": size, "maxItems": size}


def _choice(node: ChoiceNode) -> Schema:
    values = [raw for raw, _ in node.choices]
    words = {str: "string", bool: "boolean", int: "integer", type(None): "null"}
    kinds = sorted({words[type(value)] for value in values})
    return {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": values}


def _format(node: FormatNode) -> Schema:
    if node.name == "decimal":
        return {"type": "string", "pattern": _DECIMAL_PATTERN}
    return {"type": "string", "format": node.name}


def _only(keywords: Mapping[str, Any], words: tuple[str, ...]) -> Schema:
    return {word: keywords[word] for word in words if word in keywords}


def _lengths(keywords: Mapping[str, Any], noun: str) -> Schema:
    return {
        f"{word}{noun}": keywords[f"{word}Length"] for word in ("min", "max") if f"{word}Length" in keywords
    }
