"""Answers in a CSV file."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterator
from typing import BinaryIO, Final

from assay.adapters.providers.recorded_rows import Cell, RowStart, missing_column
from assay.domain.failures import ConfigurationError

FIELD_LIMIT: Final = 2**31 - 1


class _CountedLines:
    """Decoded lines of a binary file, and the offset after the last one that was taken.

    Bytes that are not UTF-8 become lone surrogates (PEP 383), so that a bad cell spoils no other.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.position = 0

    def __iter__(self) -> _CountedLines:
        return self

    def __next__(self) -> str:
        line = self._file.readline()
        if not line:
            raise StopIteration
        at_start = self.position == 0
        self.position += len(line)
        if at_start:
            line = line.removeprefix(codecs.BOM_UTF8)
        return line.decode("utf-8", "surrogateescape")


class CsvRows:
    """CSV with a header line, numbered as the file source numbers it: blank lines are no rows, a row may
    span lines, and a row that is broken counts but has no answer."""

    def __init__(self, file: BinaryIO, file_name: str, column: str, id_columns: tuple[str, ...]) -> None:
        csv.field_size_limit(max(FIELD_LIMIT, csv.field_size_limit()))
        self._lines = _CountedLines(file)
        self._reader = csv.reader(self._lines, strict=True)
        try:
            self._header = next(self._reader, [])
        except csv.Error:
            raise ConfigurationError(
                f"{file_name} cannot be read as CSV: save it with ordinary line ends."
            ) from None
        for name in (column, *id_columns[:1]) if len(id_columns) == 1 else (column,):
            if name not in self._header:
                raise missing_column(file_name, name, self._header)
        if self._header.count(column) > 1:
            raise ConfigurationError(f"{file_name} has more than one column {column!r}: rename one of them.")
        present = [name for name in id_columns if name in self._header]
        self._id_column = present[0] if present else None

    @property
    def end(self) -> int:
        return self._lines.position

    def scan(self) -> Iterator[RowStart]:
        while True:
            start = self._lines.position
            try:
                row = next(self._reader)
            except StopIteration:
                return
            except csv.Error:
                yield RowStart(start, None)
                continue
            if row:
                yield RowStart(start, self._id(row))

    def cell(self, raw: bytes, column: str) -> Cell | None:
        value = self._value(_csv_row(raw), column)
        if value is None:
            return None
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            return Cell(value.encode("utf-8", "surrogateescape"))
        return Cell(value)

    def record_id(self, raw: bytes) -> str | None:
        return self._id(_csv_row(raw))

    def _id(self, row: list[str]) -> str | None:
        return self._value(row, self._id_column) if self._id_column is not None else None

    def _value(self, row: list[str], column: str) -> str | None:
        # Another number of cells than the header has: which cell is which is anyone's guess.
        return row[self._header.index(column)] if len(row) == len(self._header) else None


def _csv_row(raw: bytes) -> list[str]:
    # Lines end at LF alone, as in the scan: a text stream would also end them at a bare CR.
    lines = (line.decode("utf-8", "surrogateescape") for line in io.BytesIO(raw))
    try:
        return next(csv.reader(lines, strict=True), [])
    except csv.Error:
        return []
