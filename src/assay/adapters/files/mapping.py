"""Where the fields of a record stand among the columns of a file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assay.domain.failures import ConfigurationError
from assay.domain.record_mapping import ATTRIBUTE_NAMES, column_of

_SHOWN_COLUMNS = 20
_COLUMN_LIKE = re.compile(r"[\w .\-/()]{1,40}")


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
