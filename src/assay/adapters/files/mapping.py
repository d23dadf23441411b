"""Which column or key of a file fills which field of a record."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
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
_SHOWN_COLUMNS = 20
_COLUMN_LIKE = re.compile(r"[\w .\-/()]{1,40}")


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


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the fields stand among the columns of a file; None and absent: the file has no such column."""

    width: int
    text: int | None
    record_id: int | None
    input_version: int | None
    attributes: tuple[tuple[str, int], ...]
    document_ref: int | None = None


def layout_of(
    header: Sequence[str],
    mapping: Mapping[str, str],
    file: str,
    *,
    needs_text: bool = True,
    documents: bool = False,
) -> Layout:
    """Finds the columns. Raises `ConfigurationError`, naming the columns found, for one that is not there."""

    def place(field: str) -> int | None:
        for column in column_of(mapping, field):
            if column in header:
                if header.count(column) > 1:
                    raise ConfigurationError(
                        f"{file} has several columns named {column}; rename all but one."
                    )
                return header.index(column)
        if mapping.get(field):
            raise ConfigurationError(
                f"{file} has no column {mapping[field]} for the field {field}; {columns_found(header)}."
            )
        return None

    text = place("text") if needs_text else None
    document_ref = place("document_ref") if documents else None
    if text is None and document_ref is None and needs_text:
        raise ConfigurationError(
            f"{file} has no column text; {columns_found(header)}. Name the one to label: --map text=COLUMN."
        )
    places = ((name, place(name)) for name in ATTRIBUTE_NAMES)
    return Layout(
        width=len(header),
        text=text,
        record_id=place("record_id"),
        input_version=place("input_version"),
        attributes=tuple((name, index) for name, index in places if index is not None),
        document_ref=document_ref,
    )


def columns_found(header: Sequence[str]) -> str:
    """The columns of a file as a clause; what does not look like a column's name may be data: not shown."""
    if not header:
        return "it has no columns"
    shown = [name if _COLUMN_LIKE.fullmatch(name) else "(not a name)" for name in header[:_SHOWN_COLUMNS]]
    if len(header) == 1 and any(mark in header[0] for mark in ";\t|"):
        return "its cells are not separated by commas: save it as CSV with commas"
    more = f" and {len(header) - _SHOWN_COLUMNS} more" if len(header) > _SHOWN_COLUMNS else ""
    return f"its columns are {', '.join(shown)}{more}"
