"""JSONL: one JSON object per physical line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from assay.adapters.files.lines import Line, LineReader, LineStream, without_ending
from assay.domain.identity import MalformedInput, SourcePosition
from assay.domain.record_json import ObjectFields, parse_object
from assay.domain.record_mapping import SourceRules
from assay.domain.records import ParsedItem, Refused, to_item

WHITE: Final = b" \t\r\n"


def filled_lines(stream: LineStream, max_bytes: int) -> Iterator[tuple[int, Line]]:
    """Lines that are not blank, with their 1-based number in the file: one item each."""
    lines = LineReader(stream, max_bytes)
    while line := lines.next_line():
        if line.cut or line.raw.strip(WHITE):
            yield lines.number, line


def read_jsonl(stream: LineStream, rules: SourceRules, start: int) -> Iterator[ParsedItem]:
    """Items from offset `start` on. Offsets count the lines that are not blank."""
    source = rules.name
    fields = ObjectFields(rules.mapping, documents=rules.documents)
    for offset, (number, line) in enumerate(filled_lines(stream, rules.max_record_bytes)):
        if offset < start:
            continue
        position = SourcePosition(0, offset, number)
        raw = without_ending(line.raw)
        if line.cut:
            yield MalformedInput(position, source, raw, "oversized")
            continue
        try:
            piece = fields.piece(parse_object(raw), number)
        except Refused as refused:
            yield MalformedInput(position, source, raw, refused.error_type, refused.path)
        else:
            yield to_item(piece, source, position, raw)
