"""One piece of a file becomes a record or, with a reason of the closed list, malformed input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from assay.domain.identity import (
    MAX_INPUT_VERSION,
    MAX_RECORD_ID_CHARS,
    NO_ATTRIBUTES,
    Attributes,
    InputRecord,
    MalformedInput,
    SourceItem,
    SourcePosition,
)
from assay.domain.text import is_blank, is_storable

# Attributes are indexed by PostgreSQL, which refuses keys over 2,704 bytes; a character has up to four.
MAX_ATTRIBUTE_CHARS: Final = 512


@dataclass(frozen=True, slots=True)
class Absent:
    """A field that the piece does not have, unlike one that is null."""


ABSENT: Final = Absent()
# A value of a field as the file's format has it; anything but str, int, None and ABSENT is a wrong type.
FieldValue = object


class Refused(Exception):
    """A piece is no record: `error_type` of the closed list and the JSON Pointer of the field."""

    def __init__(self, error_type: str, path: str = "") -> None:
        super().__init__(error_type)
        self.error_type = error_type
        self.path = path


@dataclass(frozen=True, slots=True)
class Piece:
    """The values of one row or line, by field. `row` names the record where no id does (1-based)."""

    row: int
    text: FieldValue
    record_id: FieldValue
    input_version: FieldValue
    attributes: tuple[tuple[str, FieldValue], ...] = ()


def to_item(piece: Piece, source: str, position: SourcePosition, raw: bytes) -> SourceItem:
    """The record that `piece` holds, or malformed input with the raw bytes."""
    try:
        return to_record(piece, source, position)
    except Refused as refused:
        return MalformedInput(position, source, raw, refused.error_type, refused.path)


def to_record(piece: Piece, source: str, position: SourcePosition) -> InputRecord:
    """The record that `piece` holds. Raises `Refused`: text first, then identity, then attributes."""
    text = _text(piece.text)
    record_id, version = identity(piece, source)
    attributes = _attributes(piece.attributes) if piece.attributes else NO_ATTRIBUTES
    return InputRecord(record_id, version, text, source, position, attributes)


def identity(piece: Piece, source: str) -> tuple[str, int]:
    """Record id and input version; `<source>:<row>` and 1 where the piece has none. Raises `Refused`."""
    given = piece.record_id
    if given is ABSENT:
        record_id = f"{source}:{piece.row}"
    elif isinstance(given, str):
        record_id = given
    elif isinstance(given, int) and not isinstance(given, bool):
        record_id = str(given)
    else:
        raise Refused("bad_identity", "/record_id")
    if not 0 < len(record_id) <= MAX_RECORD_ID_CHARS or not is_storable(record_id) or is_blank(record_id):
        raise Refused("bad_identity", "/record_id")
    version = 1 if piece.input_version is ABSENT else piece.input_version
    if not isinstance(version, int) or isinstance(version, bool) or not 1 <= version <= MAX_INPUT_VERSION:
        raise Refused("bad_identity", "/input_version")
    return record_id, version


def _text(value: FieldValue) -> str:
    if value is ABSENT:
        raise Refused("missing_field", "/text")
    if not isinstance(value, str):
        raise Refused("wrong_type", "/text")
    if not is_storable(value):
        raise Refused("unstorable_text", "/text")
    if is_blank(value):
        raise Refused("blank_text", "/text")
    return value


def _attributes(values: tuple[tuple[str, FieldValue], ...]) -> Attributes:
    taken: dict[str, str] = {}
    for name, value in values:
        if value is None:
            continue
        text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
        if not isinstance(text, str):
            raise Refused("wrong_type", f"/{name}")
        if len(text) > MAX_ATTRIBUTE_CHARS:
            raise Refused("oversized", f"/{name}")
        if not is_storable(text):
            raise Refused("unstorable_text", f"/{name}")
        taken[name] = text
    return Attributes(**taken)
