"""Parquet: rows of typed columns, read row group by row group and never all columns.

An offset is the number of the row in the file, as is its line (counted from 1). Of a row that is no
record the values of its columns are kept as one JSON object, bytes that are not UTF-8 as `{"base64": …}`.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from assay.adapters.files.arrow import Arrow, Batch, ParquetFile
from assay.adapters.files.damage import damaged
from assay.adapters.files.mapping import Layout
from assay.adapters.files.parquet_columns import Values, is_text, parquet_layout, used_columns, values_of
from assay.domain.failures import ConfigurationError
from assay.domain.identity import InputRecord, MalformedInput, SourcePosition
from assay.domain.record_mapping import SourceRules
from assay.domain.records import ABSENT, FieldValue, ParsedItem, Piece, Refused, to_item

MAGIC: Final = b"PAR1"
_BATCH: Final = 500
_BUFFER: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a Parquet file from one offset on, with the columns that are read."""

    start: int
    count: int
    columns: dict[int, Values]

    def raw_values(self, row: int) -> dict[int, object]:
        """The values of a row by the place of their column, texts as bytes."""
        return {place: column[row] for place, column in self.columns.items()}

    def values(self, row: int) -> dict[int, FieldValue]:
        """The values of a row. Raises `Refused` for text that is not UTF-8."""
        return _decoded(self.raw_values(row))


@contextmanager
def opened(path: Path, arrow: Arrow) -> Iterator[ParquetFile]:
    """The file, open. Raises `ConfigurationError` where it is not Parquet."""
    try:
        whole = arrow.open(path, pre_buffer=False, buffer_size=_BUFFER, read_dictionary=None)
        with closing(whole):
            texts = [
                name
                for name, kind in zip(whole.schema_arrow.names, whole.schema_arrow.types, strict=True)
                if is_text(arrow, kind)
            ]
        file = arrow.open(path, pre_buffer=False, buffer_size=_BUFFER, read_dictionary=texts)
    except arrow.error:
        raise ConfigurationError(f"{path.name} cannot be read as Parquet; write it again.") from None
    with closing(file):
        yield file


def row_count(path: Path, arrow: Arrow, rules: SourceRules) -> int:
    """Rows of the file. Raises `ConfigurationError` for columns that are missing or of a wrong type."""
    with opened(path, arrow) as file:
        parquet_layout(arrow, file.schema_arrow, rules.mapping, path.name, documents=rules.documents)
        return file.metadata.num_rows


def rows(file: ParquetFile, arrow: Arrow, places: list[int], start: int, name: str) -> Iterator[Rows]:
    """The rows from offset `start` on, a few at a time; row groups before it are not read.

    Raises `AssayError` where the data behind the footer is broken.
    """
    names = [file.schema_arrow.names[place] for place in places]
    offset = 0
    for group in range(file.metadata.num_row_groups):
        size = file.metadata.row_group(group).num_rows
        if offset + size <= start:
            offset += size
            continue
        found = _batches(file, arrow, group, names, name)
        for batch in found:
            columns = {place: values_of(arrow, batch, index) for index, place in enumerate(places)}
            yield Rows(offset, batch.num_rows, columns)
            offset += batch.num_rows


def _batches(file: ParquetFile, arrow: Arrow, group: int, names: list[str], name: str) -> Iterator[Batch]:
    try:
        yield from file.iter_batches(batch_size=_BATCH, row_groups=[group], columns=names, use_threads=False)
    except (arrow.error, OSError):
        raise damaged(name, f"holds broken data in its row group {group + 1}") from None


def read_parquet(path: Path, rules: SourceRules, start: int) -> Iterator[ParsedItem]:
    """Items from offset `start` on. Raises `ConfigurationError` as `row_count` does."""
    arrow = Arrow("Parquet")
    with opened(path, arrow) as file:
        schema = file.schema_arrow
        layout = parquet_layout(arrow, schema, rules.mapping, path.name, documents=rules.documents)
        item_at = _item_maker(layout, schema.names, rules)
        for some in rows(file, arrow, used_columns(layout), start, path.name):
            for row in range(max(start - some.start, 0), some.count):
                yield item_at(some, row)


def _item_maker(layout: Layout, names: list[str], rules: SourceRules) -> Callable[[Rows, int], ParsedItem]:
    def item_at(some: Rows, row: int) -> ParsedItem:
        values = some.raw_values(row)
        position = SourcePosition(0, some.start + row, some.start + row + 1)
        size = sum(len(value) for value in values.values() if isinstance(value, bytes))
        error_type, piece = "oversized", None
        if size <= rules.max_record_bytes:
            try:
                piece = piece_of(_decoded(values), layout, position)
            except Refused as refused:
                error_type = refused.error_type
        item = None if piece is None else to_item(piece, rules.name, position, b"")
        if isinstance(item, InputRecord):
            return item
        raw = _raw(values, names, rules.max_record_bytes)
        if item is None:
            return MalformedInput(position, rules.name, raw, error_type)
        return replace(item, raw=raw)

    return item_at


def piece_of(values: dict[int, FieldValue], layout: Layout, position: SourcePosition) -> Piece:
    """The fields of a row."""
    return Piece(
        position.offset + 1,
        ABSENT if layout.text is None else values[layout.text],
        ABSENT if layout.record_id is None else values[layout.record_id],
        ABSENT if layout.input_version is None else values[layout.input_version],
        tuple((name, values[place]) for name, place in layout.attributes),
        ABSENT if layout.document_ref is None else values[layout.document_ref],
    )


def _decoded(values: dict[int, object]) -> dict[int, FieldValue]:
    try:
        return {
            place: value.decode("utf-8") if isinstance(value, bytes) else value
            for place, value in values.items()
        }
    except UnicodeDecodeError:
        raise Refused("not_utf8") from None


def _raw(values: dict[int, object], names: list[str], most: int) -> bytes:
    shown: dict[str, object] = {}
    for place, value in values.items():
        if not isinstance(value, bytes):
            shown[names[place]] = value
            continue
        try:
            shown[names[place]] = value[:most].decode("utf-8")
        except UnicodeDecodeError:
            shown[names[place]] = {"base64": b64encode(value[:most]).decode("ascii")}
    return json.dumps(shown, ensure_ascii=False).encode()[:most]
