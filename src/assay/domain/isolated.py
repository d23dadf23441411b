"""Isolated pieces of a source, read again: the bytes as they came, or as somebody corrected them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import PurePosixPath
from typing import Final

from assay.domain.failures import ConfigurationError
from assay.domain.identity import Attributes, InputRecord, MalformedInput, SourcePosition
from assay.domain.record_json import ObjectFields, parse_object
from assay.domain.record_mapping import SourceRules
from assay.domain.records import ABSENT, ParsedItem, Refused, checked_text, to_item

CONFLICT: Final = "input_version_conflicts_with_content"
_TABLES: Final = frozenset({".csv", ".tsv", ".parquet", ".arrow", ".feather"})
_LINES: Final = frozenset({".jsonl", ".ndjson", ".json"})
_PACKED: Final = frozenset({".gz", ".zst"})


@dataclass(frozen=True, slots=True)
class IsolatedPiece:
    """An isolated piece with its bytes.

    A conflict has an identity, and what its record carried; its bytes are the record's text.
    """

    isolated_id: int
    source_id: int
    kind: str
    source: str
    mapping: str
    position: SourcePosition
    error_code: str
    raw: bytes = field(repr=False)
    record_id: str | None = None
    input_version: int | None = None
    attributes: Mapping[str, object] = field(default_factory=dict)
    subject_id: str | None = None

    @property
    def is_conflict(self) -> bool:
        return self.error_code == CONFLICT

    def own_mapping(self) -> dict[str, str]:
        """The mapping that its source was read with."""
        found = json.loads(self.mapping)
        return {str(name): str(column) for name, column in found.items()} if isinstance(found, dict) else {}


@dataclass(frozen=True, slots=True)
class Reading:
    """How pieces are read: `mapping` (None: each by its source's own), the bound of one record in bytes, and
    whether a record may refer to its text."""

    mapping: Mapping[str, str] | None
    max_record_bytes: int
    documents: bool = False


def read_again(piece: IsolatedPiece, raw: bytes, reading: Reading) -> ParsedItem:
    """The record in `raw`, at the piece's place, by the rules of its source; or why there is none.

    A row of a file that names no id goes by its number, as it would have.
    """
    mapping = piece.own_mapping() if reading.mapping is None else reading.mapping
    documents = reading.documents or bool(mapping.get("document_ref"))
    rules = SourceRules(piece.source, mapping, reading.max_record_bytes, documents=documents)
    if len(raw) > rules.max_record_bytes:
        return MalformedInput(piece.position, piece.source, raw, "oversized")
    try:
        found = ObjectFields(rules.mapping, documents=documents).piece(parse_object(raw), _row(piece))
    except Refused as refused:
        return MalformedInput(piece.position, piece.source, raw, refused.error_type, refused.path)
    if found.record_id is ABSENT and (piece.kind != "file" or found.row == 0):
        return MalformedInput(piece.position, piece.source, raw, "missing_field", "/record_id")
    return to_item(found, piece.source, piece.position, raw)


def _row(piece: IsolatedPiece) -> int:
    """The number that a row without an id goes by: a table's rows are counted, a text's lines are numbered.

    0 where the source's name does not tell which it is and the two differ.
    """
    counted, line = piece.position.offset + 1, piece.position.line or piece.position.offset + 1
    name = PurePosixPath(piece.source.lower())
    kind = PurePosixPath(name.stem).suffix if name.suffix in _PACKED else name.suffix
    if kind in _TABLES:
        return counted
    return line if kind in _LINES or line == counted else 0


def as_new_version(piece: IsolatedPiece, input_version: int) -> InputRecord:
    """The record of a conflict, under another version of its identity. Raises `Refused`."""
    if piece.record_id is None:
        raise ConfigurationError(
            f"Isolated record {piece.isolated_id} is no conflict; give its corrected bytes (--file)."
        )
    names = {each.name for each in fields(Attributes)}
    carried = {name: str(value) for name, value in piece.attributes.items() if name in names}
    attributes = replace(Attributes(**carried), subject_id=piece.subject_id)
    reference = piece.attributes.get("document_ref")
    text = checked_text(piece.raw.decode("utf-8"), "/text")
    return InputRecord(
        piece.record_id, input_version, text, piece.source, piece.position, attributes,
        document_ref=None if reference is None else str(reference),
    )  # fmt: skip
