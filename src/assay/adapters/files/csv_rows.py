"""CSV: rows of a header and comma-separated cells, quoted as RFC 4180 says.

The csv module is strict here and is fed physical lines one by one, so that the bytes and the first line of
every row are known. A row that is not one (a quote inside a quoted cell, a quote never closed) ends where
the module gives up; the next row starts on the next line. Nothing inside an open quote is taken for a row.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from assay.adapters.files.lines import Line, LineReader, LineStream, without_ending
from assay.adapters.files.mapping import Layout, layout_of
from assay.domain.failures import ConfigurationError
from assay.domain.identity import MalformedInput, SourcePosition
from assay.domain.record_mapping import SourceRules
from assay.domain.records import ABSENT, FieldValue, ParsedItem, Piece, to_item


class Row(NamedTuple):
    """One row: the physical line it starts on, its bytes, and its cells or why it has none."""

    line: int
    raw: bytes
    cells: list[str]
    error_type: str | None = None


class _TooLong(Exception):
    """The row in progress is over the bound."""


class _Feed:
    """Physical lines for the csv module; remembers those of the row in progress."""

    def __init__(self, stream: LineStream, max_bytes: int) -> None:
        self._lines = LineReader(stream, max_bytes)
        self._max_bytes = max_bytes
        self.ended = False
        self.begin()

    def begin(self) -> None:
        """A new row starts with the next line."""
        self.first = 0
        self.undecodable = False
        self._raws: list[bytes] = []
        self._size = 0

    def __iter__(self) -> _Feed:
        return self

    def __next__(self) -> str:
        line = self._lines.next_line()
        if line is None:
            self.ended = True
            raise StopIteration
        if not self._raws:
            self.first = self._lines.number
        self._raws.append(line.raw)
        self._size += len(line.raw) + line.cut
        if self._size > self._max_bytes + 1:
            self._skip_row(line)
            raise _TooLong
        try:
            return line.raw.decode("utf-8")
        except UnicodeDecodeError:
            self.undecodable = True
            return line.raw.decode("utf-8", "surrogateescape")

    def raw(self) -> bytes:
        """The bytes of the row, without its line ending; of a row over the bound its first part."""
        return without_ending(b"".join(self._raws))[: self._max_bytes]

    def _skip_row(self, line: Line) -> None:
        """Passes the rest of a row over the bound, keeping none of it."""
        quoted = len(self._raws) > 1
        latest: Line | None = line
        while latest is not None:
            quoted = _still_quoted(latest, quoted)
            if not quoted:
                return
            latest = self._lines.next_line()
        self.ended = True


def _still_quoted(line: Line, quoted: bool) -> bool:
    """Whether a quote is open at the end of a line, `quoted` telling whether one was at its start.

    The csv module decides; a line that was cut is judged by the number of its quotes.
    """
    if not line.cut and b'"' not in line.raw:
        return quoted
    if line.cut:
        return quoted ^ bool((line.raw.count(b'"') + line.cut_quotes) % 2)
    wants_more = False

    def lines() -> Iterator[str]:
        nonlocal wants_more
        yield ('"' if quoted else "") + line.raw.decode("utf-8", "surrogateescape")
        wants_more = True

    with suppress(csv.Error):  # a row that ends in an error has ended
        next(csv.reader(lines(), strict=True), None)
    return wants_more


def rows(stream: LineStream, max_bytes: int) -> Iterator[Row]:
    """All rows with the header first; blank lines are no rows."""
    if csv.field_size_limit() < max_bytes + 1:
        csv.field_size_limit(max_bytes + 1)  # the module's own limit is for the whole process
    feed = _Feed(stream, max_bytes)
    reader = csv.reader(feed, strict=True)
    while True:
        feed.begin()
        try:
            cells = next(reader, None)
        except csv.Error:
            yield Row(feed.first, feed.raw(), [], "bad_row")
            continue
        except _TooLong:
            yield Row(feed.first, feed.raw(), [], "bad_row" if feed.ended else "oversized")
            continue
        if cells is None:
            return
        if cells:
            yield Row(feed.first, feed.raw(), cells, "not_utf8" if feed.undecodable else None)


def read_header(row: Row | None, file: str) -> list[str]:
    """The column names. Raises `ConfigurationError` where the first row cannot be a header."""
    if row is None:
        raise ConfigurationError(f"{file} is empty; give a file with records.")
    if row.raw.lstrip().startswith(b"{") and b'":' in row.raw:
        raise ConfigurationError(f"{file} looks like JSONL, not CSV; read it with --format jsonl.")
    if row.error_type == "not_utf8" or "\0" in "".join(row.cells):
        raise ConfigurationError(f"{file} is not UTF-8 text; save it as UTF-8.")
    if row.error_type is not None:
        raise ConfigurationError(f"The first row of {file} is not a CSV header; repair it.")
    return row.cells


def read_csv(stream: LineStream, rules: SourceRules, start: int) -> Iterator[ParsedItem]:
    """Items from offset `start` on; offset 0 is the first row after the header.

    Raises `ConfigurationError` for a header that lacks a column.
    """
    source = rules.name
    found = rows(stream, rules.max_record_bytes)
    layout = layout_of(
        read_header(next(found, None), source), rules.mapping, source, documents=rules.documents
    )
    for offset, row in enumerate(found):
        if offset < start:
            continue
        position = SourcePosition(0, offset, row.line)
        error_type = row_error(row, layout)
        if error_type:
            yield MalformedInput(position, source, row.raw, error_type)
        else:
            yield to_item(csv_piece(row.cells, layout, offset + 1), source, position, row.raw)


def row_error(row: Row, layout: Layout) -> str | None:
    """Why a row has no fields: it could not be read, or has another number of cells than the header."""
    return row.error_type or (None if len(row.cells) == layout.width else "bad_row")


def csv_piece(cells: list[str], layout: Layout, row: int) -> Piece:
    """The fields of a row. An empty attribute is none at all, as is an empty reference to a document."""
    return Piece(
        row,
        ABSENT if layout.text is None else cells[layout.text],
        ABSENT if layout.record_id is None else cells[layout.record_id],
        ABSENT if layout.input_version is None else _version(cells[layout.input_version]),
        tuple((name, cells[index] or None) for name, index in layout.attributes) if layout.attributes else (),
        ABSENT if layout.document_ref is None else cells[layout.document_ref] or ABSENT,
    )


def _version(cell: str) -> FieldValue:
    """Digits as a number; any other cell as it is, which is no version."""
    return int(cell) if cell.isascii() and cell.isdigit() and len(cell) <= 10 else cell
