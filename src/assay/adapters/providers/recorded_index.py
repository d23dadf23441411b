"""Finds the row of a record in an answers file without holding the file in memory.

16 bytes per row: its offset, and a hash of its record id. A candidate is verified in the file itself, so
a hash collision costs a read and never a wrong answer.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, Final

from assay.adapters.providers.recorded_csv import CsvRows
from assay.adapters.providers.recorded_jsonl import JsonlRows
from assay.adapters.providers.recorded_rows import Cell, Rows
from assay.domain.failures import ConfigurationError

DEFAULT_ID_COLUMNS: Final = ("record_id", "id")

_FORMATS: Final[dict[str, type[CsvRows] | type[JsonlRows]]] = {".csv": CsvRows, ".jsonl": JsonlRows}
_ROW_BITS: Final = 28
_HASH_MASK: Final = 2 ** (64 - _ROW_BITS) - 1


class AnswersChangedError(Exception):
    """The file is no longer the one that was indexed."""


class AnswersFile:
    """An answers file and its index. Rows are numbered from 1.

    Raises `ConfigurationError` for a file, format or column that is not there, and for an id column asked
    for by name that holds one id twice. The file stays open until `close`.
    """

    def __init__(self, path: Path, column: str, id_column: str | None) -> None:
        rows_of = _FORMATS.get(path.suffix.lower())
        if rows_of is None:
            raise ConfigurationError(f"{path.name} is neither .csv nor .jsonl: convert it to one of them.")
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise ConfigurationError(
                f"The answers file {path} cannot be opened ({error.strerror}): correct the model's path."
            ) from None
        try:
            id_columns = DEFAULT_ID_COLUMNS if id_column is None else (id_column,)
            self._rows: Rows = rows_of(self._file, path.name, column, id_columns)
            self._offsets = array("Q")
            self._ids = array("Q")
            self._index()
            if id_column is not None:
                self._refuse_duplicates(path.name, id_column)
        except BaseException:
            self._file.close()
            raise
        self._column = column
        self._stamp = _stamp(self._file)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def answer(self, row: int) -> Cell | None:
        """The cell of the answer's column in a row; None where the row has none."""
        if _stamp(self._file) != self._stamp:
            raise AnswersChangedError
        return self._rows.cell(self._raw(row), self._column)

    def rows_with_id(self, record_id: str) -> list[int]:
        """The rows of a record id, two at most: a second one is one too many."""
        if _stamp(self._file) != self._stamp:
            raise AnswersChangedError
        prefix = hash(record_id) & _HASH_MASK
        found: list[int] = []
        for position in range(bisect_left(self._ids, prefix << _ROW_BITS), len(self._ids)):
            entry = self._ids[position]
            if entry >> _ROW_BITS != prefix or len(found) == 2:
                break
            row = entry & (2**_ROW_BITS - 1)
            if self._rows.record_id(self._raw(row)) == record_id:
                found.append(row)
        return found

    def close(self) -> None:
        """Close the file. May be called twice."""
        self._file.close()

    def _index(self) -> None:
        entries = array("Q")
        for row, start in enumerate(self._rows.scan(), start=1):
            self._offsets.append(start.offset)
            if start.record_id:
                entries.append((hash(start.record_id) & _HASH_MASK) << _ROW_BITS | row)
        self._offsets.append(self._rows.end)
        self._ids = array("Q", sorted(entries))

    def _refuse_duplicates(self, file_name: str, id_column: str) -> None:
        for one, other in pairwise(self._ids):
            if one >> _ROW_BITS != other >> _ROW_BITS:
                continue
            a, b = (entry & (2**_ROW_BITS - 1) for entry in (one, other))
            if self._rows.record_id(self._raw(a)) == self._rows.record_id(self._raw(b)):
                raise ConfigurationError(
                    f"Rows {a} and {b} of {file_name} have the same {id_column!r}: keep one of them."
                )

    def _raw(self, row: int) -> bytes:
        start = self._offsets[row - 1]
        self._file.seek(start)
        return self._file.read(self._offsets[row] - start)


def _stamp(file: BinaryIO) -> tuple[int, int]:
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns
