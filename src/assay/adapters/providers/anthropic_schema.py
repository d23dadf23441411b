"""A contract's JSON Schema as Anthropic's structured output takes it.

It knows types, enumerations, formats, lists and closed objects; bounds and patterns it refuses. They are told
to the model in the description instead; the boundary checks them again in any case.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_TOLD: Final = (
    "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength",
    "pattern", "minItems", "maxItems",
)  # fmt: skip
_FORMATS: Final = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "uri", "uuid"})


class _NotTakenError(Exception):
    """A shape that the vendor cannot constrain."""


def output_schema(schema: Mapping[str, object]) -> dict[str, object] | None:
    """The schema to send, or None where the vendor cannot constrain such a contract: one with maps of free
    keys, lists with a type per place, or a contract inside itself. The answer is then unconstrained."""
    definitions = schema.get("$defs")
    known = definitions if isinstance(definitions, Mapping) else {}
    try:
        if _recursive(known):
            return None
        taken = _taken(schema)
        if known:
            taken["$defs"] = {name: _taken(_mapping(inner)) for name, inner in known.items()}
    except _NotTakenError:
        return None
    return taken


def _taken(schema: Mapping[str, object]) -> dict[str, object]:
    if "$ref" in schema:
        return {"$ref": schema["$ref"]}
    if "prefixItems" in schema or isinstance(schema.get("additionalProperties"), Mapping):
        raise _NotTakenError
    kept = {name: schema[name] for name in ("type", "enum", "required") if name in schema}
    if isinstance(kept.get("type"), list) and "enum" in kept:
        del kept["type"]  # the enumeration says it already
    if schema.get("type") == "object":
        properties = _mapping(schema.get("properties", {}))
        kept["properties"] = {name: _taken(_mapping(inner)) for name, inner in properties.items()}
        kept["additionalProperties"] = False
    if "items" in schema:
        kept["items"] = _taken(_mapping(schema["items"]))
    members = schema.get("anyOf")
    if isinstance(members, list):
        kept["anyOf"] = [_taken(_mapping(member)) for member in members]
    told = {name: schema[name] for name in _TOLD if name in schema}
    if schema.get("format") in _FORMATS:
        kept["format"] = schema["format"]
    elif "format" in schema:
        told["format"] = schema["format"]
    return kept | _described(schema.get("description"), told)


def _described(description: object, told: Mapping[str, object]) -> dict[str, object]:
    sentences = [description] if isinstance(description, str) else []
    if told:
        sentences.append("(" + ", ".join(f"{name}: {value}" for name, value in told.items()) + ")")
    return {"description": " ".join(sentences)} if sentences else {}


def _mapping(value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise _NotTakenError
    return value


def _recursive(definitions: Mapping[str, object]) -> bool:
    """Whether a definition reaches itself."""
    reaches = {name: _references(inner) & set(definitions) for name, inner in definitions.items()}
    for _ in reaches:
        reaches = {
            name: direct.union(*(reaches[other] for other in direct)) for name, direct in reaches.items()
        }
    return any(name in reached for name, reached in reaches.items())


def _references(schema: object) -> set[str]:
    if isinstance(schema, Mapping):
        own = {str(schema["$ref"]).rpartition("/")[2]} if "$ref" in schema else set[str]()
        return own.union(*(_references(inner) for inner in schema.values()))
    if isinstance(schema, list):
        return set[str]().union(*(_references(inner) for inner in schema))
    return set()
