"""One piece of a file becomes a record or, with a reason of the closed list, malformed input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from assay.domain.identity import (
    MAX_DOCUMENT_REF_CHARS,
    MAX_INPUT_VERSION,
    MAX_RECORD_ID_CHARS,
    NO_ATTRIBUTES,
    PRIORITIES,
    Attributes,
    InputRecord,
    MalformedInput,
    SourceItem,
    SourcePosition,
    is_trace_parent,
)
from assay.domain.text import is_blank, is_storable

# Attributes are indexed by PostgreSQL, which refuses keys over 2,704 bytes; a character has up to four.
MAX_ATTRIBUTE_CHARS: Final = 512
# A blank subject would gather many people under one key, to be erased together.
_VALID: Final[dict[str, Callable[[str], bool]]] = {
    "priority": lambda value: value in PRIORITIES,
    "trace_parent": is_trace_parent,
    "subject_id": lambda value: not is_blank(value),
}


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
    document_ref: FieldValue = ABSENT


@dataclass(frozen=True, slots=True)
class Referenced:
    """A record whose text lies elsewhere and has not been fetched. `raw` are the bytes that refer to it."""

    record_id: str
    input_version: int
    document_ref: str
    source: str
    position: SourcePosition
    attributes: Attributes
    raw: bytes = field(repr=False)

    def with_text(self, text: str) -> InputRecord:
        """The record, once its document is here. Raises `Refused` for a text that cannot be labelled."""
        return InputRecord(
            self.record_id, self.input_version, checked_text(text, "/document_ref"), self.source,
            self.position, self.attributes, document_ref=self.document_ref,
        )  # fmt: skip

    def refused(self, error_type: str) -> MalformedInput:
        """The piece of the source, isolated because of its document."""
        return MalformedInput(self.position, self.source, self.raw, error_type, "/document_ref")


ParsedItem = SourceItem | Referenced


def to_item(piece: Piece, source: str, position: SourcePosition, raw: bytes) -> ParsedItem:
    """The record that `piece` holds or refers to, or malformed input with the raw bytes."""
    try:
        if piece.document_ref is not ABSENT and piece.document_ref is not None:
            return _referenced(piece, source, position, raw)
        return to_record(piece, source, position)
    except Refused as refused:
        return MalformedInput(position, source, raw, refused.error_type, refused.path)


def to_record(piece: Piece, source: str, position: SourcePosition) -> InputRecord:
    """The record that `piece` holds. Raises `Refused`: text first, then identity, then attributes."""
    text = _text(piece.text)
    record_id, version = identity(piece, source)
    attributes = _attributes(piece.attributes) if piece.attributes else NO_ATTRIBUTES
    return InputRecord(record_id, version, text, source, position, attributes)


def _referenced(piece: Piece, source: str, position: SourcePosition, raw: bytes) -> Referenced:
    reference = piece.document_ref
    if not isinstance(reference, str):
        raise Refused("wrong_type", "/document_ref")
    # A text of its own beside it: nobody could say which of the two was labelled.
    if piece.text not in (ABSENT, None, ""):
        raise Refused("bad_reference", "/document_ref")
    if not is_storable(reference) or is_blank(reference) or len(reference) > MAX_DOCUMENT_REF_CHARS:
        raise Refused("bad_reference", "/document_ref")
    record_id, version = identity(piece, source)
    attributes = _attributes(piece.attributes) if piece.attributes else NO_ATTRIBUTES
    return Referenced(record_id, version, reference, source, position, attributes, raw)


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
    return checked_text(value, "/text")


def checked_text(value: str, path: str) -> str:
    """The text as it is. Raises `Refused` where it cannot be stored or shows nothing."""
    if not is_storable(value):
        raise Refused("unstorable_text", path)
    if is_blank(value):
        raise Refused("blank_text", path)
    return value


def _is_short_text(value: FieldValue) -> bool:
    return (
        isinstance(value, str) and len(value) <= MAX_ATTRIBUTE_CHARS and is_storable(value)
        and not is_blank(value)
    )  # fmt: skip


def _attributes(values: tuple[tuple[str, FieldValue], ...]) -> Attributes:
    taken: dict[str, str] = {}
    for name, value in values:
        if value is None:
            continue
        text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
        if name == "source" and not _is_short_text(text):
            # What a record says of its source is a help, and many have a key of that name for something else.
            continue
        if not isinstance(text, str):
            raise Refused("wrong_type", f"/{name}")
        if len(text) > MAX_ATTRIBUTE_CHARS:
            raise Refused("oversized", f"/{name}")
        if not is_storable(text):
            raise Refused("unstorable_text", f"/{name}")
        if name in _VALID and not _VALID[name](text):
            raise Refused("bad_value", f"/{name}")
        taken[name] = text
    return Attributes(**taken)
