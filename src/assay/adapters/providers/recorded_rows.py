"""Rows of an answers file: what the CSV and the JSONL reader have in common.

Both give, for each data row, where it starts and the record id in it; and, from the row's bytes, the cell
of a column exactly as it was written.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

from assay.domain.failures import ConfigurationError

MAX_COLUMNS_NAMED: Final = 30


class Cell(NamedTuple):
    """One cell. `text` is bytes where it is not UTF-8. `json_scalar`: a JSON number, true or false."""

    text: str | bytes
    json_scalar: bool = False


class RowStart(NamedTuple):
    """Byte offset at which a data row starts, and the record id in it if there is one."""

    offset: int
    record_id: str | None


class Rows(Protocol):
    """A file format. `scan` reads the whole file once, `end` is the offset after the last row."""

    @property
    def end(self) -> int: ...

    def scan(self) -> Iterator[RowStart]: ...

    def cell(self, raw: bytes, column: str) -> Cell | None: ...

    def record_id(self, raw: bytes) -> str | None: ...


def missing_column(file_name: str, column: str, columns: list[str]) -> ConfigurationError:
    """The error for a column that is not there; it names those that are."""
    named = ", ".join(columns[:MAX_COLUMNS_NAMED]) or "none"
    more = ", …" if len(columns) > MAX_COLUMNS_NAMED else ""
    return ConfigurationError(
        f"{file_name} has no column {column!r}: name one of those it has ({named}{more})."
    )
