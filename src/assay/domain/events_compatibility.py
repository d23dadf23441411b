"""What may change in a published event schema without a new version: words, and optional fields added."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from pydantic import JsonValue

# Keywords that say nothing about which documents are valid.
_WORDS: Final = frozenset({"title", "description", "$comment", "examples"})
_LOCAL: Final = "#/$defs/"


def incompatibilities(published: dict[str, JsonValue], now: dict[str, JsonValue]) -> list[str]:
    """One sentence per change that a reader of the published schema would notice; empty where none does.

    Optional fields may be added, and descriptions may change. Everything else needs a new version: a field
    taken away, one that was required and is not or the other way round, another type, enumeration or bound.
    """
    return list(_compare(_resolved(published, published), _resolved(now, now), ""))


def _compare(old: JsonValue, new: JsonValue, path: str) -> Iterator[str]:
    if not isinstance(old, dict) or not isinstance(new, dict):
        if old != new:
            yield f"{path or '/'}: was {old!r}, is {new!r}"
        return
    for key in sorted((old.keys() | new.keys()) - _WORDS):
        before, after, place = old.get(key), new.get(key), f"{path}/{key}"
        if key == "properties":
            yield from _properties(_fields(before), _fields(after), path)
        elif key == "required":
            yield from _required(_names(before), _names(after), path)
        elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
            for index, (left, right) in enumerate(zip(before, after, strict=True)):
                yield from _compare(left, right, f"{place}/{index}")
        elif key in old and key in new:
            yield from _compare(before, after, place)
        else:
            yield f"{place}: was {'there' if key in old else 'not there'}, is {'not ' * (key in old)}there"


def _properties(old: Mapping[str, JsonValue], new: Mapping[str, JsonValue], path: str) -> Iterator[str]:
    for name, schema in old.items():
        if name in new:
            yield from _compare(schema, new[name], f"{path}/{name}")
        else:
            yield f"{path}/{name}: the field was taken away"


def _required(old: frozenset[str], new: frozenset[str], path: str) -> Iterator[str]:
    yield from (f"{path}/{name}: the field was required and is not" for name in sorted(old - new))
    yield from (f"{path}/{name}: the field is required and was not" for name in sorted(new - old))


def _fields(value: JsonValue) -> Mapping[str, JsonValue]:
    return value if isinstance(value, dict) else {}


def _names(value: JsonValue) -> frozenset[str]:
    return frozenset(str(name) for name in value) if isinstance(value, list) else frozenset()


def _resolved(
    schema: JsonValue, root: Mapping[str, JsonValue], inside: frozenset[str] = frozenset()
) -> JsonValue:
    """The schema with its own definitions written in place; one inside itself stays a reference."""
    if isinstance(schema, list):
        return [_resolved(item, root, inside) for item in schema]
    if not isinstance(schema, dict):
        return schema
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith(_LOCAL) and reference not in inside:
        target = _fields(root.get("$defs")).get(reference.removeprefix(_LOCAL))
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        if isinstance(target, dict):
            return _resolved({**target, **beside}, root, inside | {reference})
    return {key: _resolved(value, root, inside) for key, value in schema.items() if key != "$defs"}
