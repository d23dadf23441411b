"""Which column or key of a source fills which field of a record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields

from assay.domain.failures import ConfigurationError
from assay.domain.identity import Attributes

ATTRIBUTE_NAMES = tuple(field.name for field in fields(Attributes))
FIELD_NAMES = ("text", "document_ref", "record_id", "input_version", *ATTRIBUTE_NAMES)
# A column named priority is common and seldom means normal or low: it is taken where it is mapped.
_DEFAULT_COLUMNS = {
    "record_id": ("record_id", "id"),
    "priority": (),
    "trace_parent": ("trace_parent", "traceparent"),
}
_SHORT_NAMES = {"document": "document_ref"}


def parse_mapping(options: Iterable[str]) -> dict[str, str]:
    """Reads `FIELD=COLUMN` options. An empty column (`language=`) means: do not take this field.

    `document` is short for `document_ref`.

    Raises `ConfigurationError` for another form, an unknown field or a field given twice.
    """
    mapping: dict[str, str] = {}
    for option in options:
        name, equals, column = option.partition("=")
        name = _SHORT_NAMES.get(name, name)
        if not equals:
            raise ConfigurationError(
                f"--map {option} is not of the form FIELD=COLUMN, as in --map text=title."
            )
        if name in mapping:
            raise ConfigurationError(f"--map names the field {name} twice; keep one of them.")
        mapping[name] = column
    check_mapping(mapping)
    return mapping


def check_mapping(mapping: Mapping[str, str]) -> None:
    """Raises `ConfigurationError` for a field that a record does not have, or a text that is not taken."""
    for name in mapping:
        if name not in FIELD_NAMES:
            raise ConfigurationError(f"There is no field {name} to map; fields are {', '.join(FIELD_NAMES)}.")
    if mapping.get("text") == "":
        raise ConfigurationError("The field text cannot be left out; name its column: --map text=COLUMN.")


def column_of(mapping: Mapping[str, str], field: str) -> tuple[str, ...]:
    """Columns that may fill `field`, best first: the mapped one alone, or the defaults; () for none."""
    if field in mapping:
        return (mapping[field],) if mapping[field] else ()
    return _DEFAULT_COLUMNS.get(field, (field,))


@dataclass(frozen=True, slots=True)
class SourceRules:
    """How the pieces of a source become records: its name, field to column, and the bound of one record.

    `documents` says whether a record may refer to its text instead of holding it.
    """

    name: str
    mapping: Mapping[str, str]
    max_record_bytes: int
    documents: bool = False
