"""A contract's JSON Schema as field scoring reads it: what stands at a place, and of which kind it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from assay.domain.compared_values import FieldKind
from assay.domain.json_text import Json, Number

Schema = Mapping[str, object]
_REF: Final = "#/$defs/"
_FORMATS: Final = {"date": FieldKind.DATE, "date-time": FieldKind.TIME, "time": FieldKind.TIME}
# What `DecimalText` looks like: a text of no other form has such a pattern.
_DECIMAL: Final = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?$"


def as_schema(value: object) -> Schema:
    """The value where it is a schema, else one that says nothing."""
    return value if isinstance(value, Mapping) else {}


def place(schema: Schema, root: Schema, example: Json) -> Schema:
    """The schema behind references and unions, the member that the example is of; null members are left out.

    An example of null stands for the first member.
    """
    schema = _resolved(schema, root)
    members = schema.get("anyOf")
    if not isinstance(members, list):
        return schema
    opened = [_resolved(as_schema(member), root) for member in members]
    several = [member for member in opened if member.get("type") != "null"]
    fitting = [member for member in several if _fits(member, example)]
    return next(iter([*fitting, *several]), {})


def kind_of(schema: Schema) -> FieldKind:
    """How single values of this schema are compared."""
    kinds = schema.get("type")
    if "enum" in schema or kinds == "boolean":
        return FieldKind.CHOICE
    if kinds in ("number", "integer") or schema.get("pattern") == _DECIMAL:
        return FieldKind.AMOUNT
    return _FORMATS.get(str(schema.get("format")), FieldKind.TEXT)


def is_object(schema: Schema) -> bool:
    """Whether objects stand here, with declared fields or with keys from data."""
    return schema.get("type") == "object"


def is_array(schema: Schema) -> bool:
    """Whether arrays stand here."""
    return schema.get("type") == "array"


def _resolved(schema: Schema, root: Schema) -> Schema:
    reference = schema.get("$ref")
    if not isinstance(reference, str):
        return schema
    return as_schema(as_schema(root.get("$defs")).get(reference.removeprefix(_REF)))


def _fits(schema: Schema, example: Json) -> bool:
    if isinstance(example, dict):
        properties = as_schema(schema.get("properties"))
        return is_object(schema) and (not properties or bool(properties.keys() & example.keys()))
    if isinstance(example, list):
        return is_array(schema)
    if is_object(schema) or is_array(schema):
        return False
    number = isinstance(example, Number)
    return number == (schema.get("type") in ("number", "integer")) or "enum" in schema
