"""The fields of a version's labels: their order, which the database forgets, and which are sensitive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from assay.domain.failures import ConfigurationError
from assay.domain.json_text import Json

_REF: Final = "#/$defs/"
Schema = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class LabelFields:
    """Top-level fields in the contract's order (`keys`), and those that `--reveal` shows (`hidden`).

    `sensitive` are JSON Pointers of all sensitive texts, also inside fields that are shown without them.
    """

    keys: tuple[str, ...]
    hidden: frozenset[str]
    sensitive: tuple[str, ...]
    schema: Schema

    def arrange(self, label: Json) -> Json:
        """The label with its fields in the contract's order, at any depth."""
        return _arrange(label, self.schema, self.schema)


def label_fields(definition: Mapping[str, object]) -> LabelFields:
    """What a version's definition says about its labels.

    Raises `ConfigurationError` for a definition without a contract.
    """
    contract = _object(definition.get("contract"))
    schema = _object(contract.get("schema"))
    required, sensitive = schema.get("required"), contract.get("sensitive")
    if not isinstance(required, list) or not isinstance(sensitive, list):
        raise ConfigurationError(
            "This version was registered without its contract; register it again under another name."
        )
    pointers = tuple(str(pointer) for pointer in sensitive)
    return LabelFields(
        keys=tuple(str(key) for key in required),
        hidden=frozenset(key for key in map(_hidden_field, pointers) if key is not None),
        sensitive=pointers,
        schema=schema,
    )


def closed_list(definition: Mapping[str, object], key: str) -> tuple[str | int | bool | None, ...] | None:
    """The values that a top-level field may have; None where they are no closed list."""
    values: list[str | int | bool | None] = []
    for member in _members(definition, key):
        choices = member.get("enum")
        if isinstance(choices, list):
            values.extend(value for value in choices if value is None or isinstance(value, str | int))
        elif member.get("type") != "null":
            return None
    return tuple(values) or None


def types_of(definition: Mapping[str, object], key: str) -> frozenset[str]:
    """The JSON types that a top-level field may have, in the words of JSON Schema."""
    found: set[str] = set()
    for member in _members(definition, key):
        kinds = member.get("type")
        found.update(
            str(kind) for kind in (kinds if isinstance(kinds, list) else [kinds]) if kind is not None
        )
    return frozenset(found)


def _members(definition: Mapping[str, object], key: str) -> list[Schema]:
    """The schema of a top-level field, or those of its union."""
    properties = _object(_object(_object(definition.get("contract")).get("schema")).get("properties"))
    schema = _object(properties.get(key))
    members = schema.get("anyOf")
    return [_object(member) for member in members] if isinstance(members, list) else [schema]


def _hidden_field(pointer: str) -> str | None:
    """The top-level field that is left out whole: a text, or an array or map of texts."""
    steps = [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]
    whole = len(steps) == 1 or (len(steps) == 2 and (steps[1] == "*" or steps[1].isdecimal()))
    return steps[0] if whole else None


def _object(value: object) -> Schema:
    return value if isinstance(value, Mapping) else {}


def _arrange(value: Json, schema: Schema, root: Schema) -> Json:
    if isinstance(value, dict):
        found = _fitting(schema, root, set(value))
        required = found.get("required")
        properties = _object(found.get("properties"))
        rest = _object(found.get("additionalProperties"))
        keys = [str(key) for key in required if key in value] if isinstance(required, list) else []
        keys += [key for key in value if key not in properties]
        return {key: _arrange(value[key], _object(properties.get(key, rest)), root) for key in keys}
    if isinstance(value, list):
        found = _fitting(schema, root, None)
        places = found.get("prefixItems")
        items = places if isinstance(places, list) else [found.get("items")] * len(value)
        return [_arrange(item, _object(place), root) for item, place in zip(value, items, strict=False)]
    return value


def _fitting(schema: Schema, root: Schema, keys: set[str] | None) -> Schema:
    """The schema behind references and unions that an object with these keys (None: an array) fits."""
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return _fitting(_object(_object(root.get("$defs")).get(reference.removeprefix(_REF))), root, keys)
    members = schema.get("anyOf")
    if not isinstance(members, Sequence):
        return schema
    opened = [_fitting(_object(member), root, keys) for member in members]
    fits = (member for member in opened if _fits(member, keys))
    return next(fits, {})


def _fits(schema: Schema, keys: set[str] | None) -> bool:
    if keys is None:
        return schema.get("type") == "array"
    if schema.get("type") != "object":
        return False
    return "properties" not in schema or keys <= set(_object(schema.get("properties")))
