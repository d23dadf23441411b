"""Gold labels from a column of a file, by record."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, NamedTuple

from assay.adapters.files.arrow import Arrow
from assay.adapters.files.compressed import plain
from assay.adapters.files.csv_rows import csv_piece, read_header, row_error, rows
from assay.adapters.files.damage import DamagedStream
from assay.adapters.files.jsonl import filled_lines
from assay.adapters.files.mapping import columns_found, layout_of
from assay.adapters.files.parquet import opened, piece_of
from assay.adapters.files.parquet import rows as parquet_rows
from assay.adapters.files.parquet_columns import check_label_type, parquet_layout, used_columns
from assay.adapters.files.scan import Format, buffered, detect_format, readable
from assay.domain.failures import ConfigurationError
from assay.domain.identity import SourcePosition
from assay.domain.json_text import DuplicateKey, Json, JsonInvalid, read_json
from assay.domain.record_json import ObjectFields, look_up, parse_object
from assay.domain.record_mapping import check_mapping
from assay.domain.records import ABSENT, FieldValue, Piece, Refused, identity
from assay.domain.text import is_blank

_MAX_RECORD_BYTES: Final = 8 << 20


class _GoldRow(NamedTuple):
    line: int
    piece: Piece
    label: FieldValue


def read_gold(
    spec: str,
    *,
    format: Literal["auto", "jsonl", "csv", "parquet"] = "auto",
    mapping: Mapping[str, str] | None = None,
    name: str | None = None,
) -> dict[str, str]:
    """Gold labels of `FILE#COLUMN` by record id. Records are named as a source of the file names them.

    A label is text as it is; a number or a boolean counts as its JSON text. Gold has to be whole: raises
    `ConfigurationError`, naming the line, for a row that is malformed or without a label, and for two
    rows that give one record different labels. Where a record id comes in several versions with one
    label, that is the label.
    """
    labels: dict[str, str] = {}
    for record_id, row, path in _gold(spec, format, mapping, name):
        label = _label(row, path)
        if labels.setdefault(record_id, label) != label:
            raise _contradicts(path, row.line)
    return labels


def read_gold_objects(
    spec: str,
    *,
    format: Literal["auto", "jsonl", "csv", "parquet"] = "auto",
    mapping: Mapping[str, str] | None = None,
    name: str | None = None,
) -> dict[str, Json]:
    """What extractions should be, from `FILE#COLUMN` by record id: objects, or texts that hold one as JSON.

    Numbers stay as they are written. Otherwise as `read_gold`.
    """
    objects: dict[str, Json] = {}
    for record_id, row, path in _gold(spec, format, mapping, name):
        gold = _object(row, path)
        if objects.setdefault(record_id, gold) != gold:
            raise _contradicts(path, row.line)
    return objects


def _gold(
    spec: str,
    format: Literal["auto", "jsonl", "csv", "parquet"],
    mapping: Mapping[str, str] | None,
    name: str | None,
) -> Iterator[tuple[str, _GoldRow, Path]]:
    """Record id and row of all gold; at least one."""
    columns = dict(mapping or {})
    check_mapping(columns)
    file, mark, column = spec.rpartition("#")
    kind: Format | None = None if format == "auto" else format
    if not (mark and file and column) or not Path(file).exists():
        given = next((Path(each) for each in (spec, file) if each and Path(each).is_file()), None)
        found = "" if given is None else f"; {columns_found(_columns(given, kind))}"
        if given is not None or not (mark and file and column):
            raise ConfigurationError(f"{spec} does not name a column of a file; write FILE#COLUMN{found}.")
    path = Path(file)
    rows_found = 0
    with readable(path), buffered(plain(io.FileIO(path))) as stream:
        kind = kind or detect_format(path, stream, path.name)
        for row in _whole(_READERS[kind](stream, path, columns, column), path):
            try:
                record_id, _ = identity(row.piece, name or path.name)
            except Refused as refused:
                raise _unusable(path, row.line, refused.error_type) from None
            rows_found += 1
            yield record_id, row, path
    if not rows_found:
        raise ConfigurationError(f"{path.name} holds no gold labels; give a file with records.")


def _columns(path: Path, kind: Format | None) -> list[str]:
    """The columns of a file; of JSONL the keys of its first line, none where that is no object."""
    with readable(path), buffered(plain(io.FileIO(path))) as stream:
        kind = kind or detect_format(path, stream, path.name)
        if kind == "csv":
            return read_header(next(rows(stream, _MAX_RECORD_BYTES), None), path.name)
        if kind == "jsonl":
            for _, line in filled_lines(stream, _MAX_RECORD_BYTES):
                with suppress(Refused):
                    return list(parse_object(line.raw))
                break
            return []
    with opened(path, Arrow("Parquet")) as file:
        return list(file.schema_arrow.names)


def _place(names: list[str], column: str, file: str) -> int:
    """Where the gold column stands."""
    if column not in names:
        raise ConfigurationError(f"{file} has no column {column}; {columns_found(names)}.")
    if names.count(column) > 1:
        raise ConfigurationError(f"{file} has several columns named {column}; rename all but one.")
    return names.index(column)


def _whole(found: Iterator[_GoldRow], path: Path) -> Iterator[_GoldRow]:
    try:
        yield from found
    except DamagedStream as damage:
        raise ConfigurationError(
            f"{path.name} {damage.reason}; gold has to be whole: mend the file."
        ) from None


def _csv_gold(
    stream: io.BufferedReader, path: Path, mapping: Mapping[str, str], column: str
) -> Iterator[_GoldRow]:
    found = rows(stream, _MAX_RECORD_BYTES)
    header = read_header(next(found, None), path.name)
    layout = layout_of(header, mapping, path.name, needs_text=False)
    place = _place(header, column, path.name)
    for number, row in enumerate(found, start=1):
        error_type = row_error(row, layout)
        if error_type:
            raise _unusable(path, row.line, error_type)
        yield _GoldRow(row.line, csv_piece(row.cells, layout, number), row.cells[place])


def _jsonl_gold(
    stream: io.BufferedReader, path: Path, mapping: Mapping[str, str], column: str
) -> Iterator[_GoldRow]:
    fields = ObjectFields(mapping)
    first = True
    for number, line in filled_lines(stream, _MAX_RECORD_BYTES):
        if line.cut:
            raise _unusable(path, number, "oversized")
        try:
            value = parse_object(line.raw)
        except Refused as refused:
            raise _unusable(path, number, refused.error_type) from None
        label = look_up(value, (column,))
        if isinstance(label, dict):
            # Read again: these numbers may be amounts, and no float stands for one.
            exact = read_json(line.raw.decode("utf-8"))
            label = look_up(exact if isinstance(exact, dict) else {}, (column,))
        if label is ABSENT and first:
            raise ConfigurationError(
                f"Line {number} of {path.name} has no column {column}; {columns_found(list(value))}."
            )
        first = False
        yield _GoldRow(number, fields.piece(value, number), label)


def _parquet_gold(
    _: io.BufferedReader, path: Path, mapping: Mapping[str, str], column: str
) -> Iterator[_GoldRow]:
    arrow = Arrow("Parquet")
    with opened(path, arrow) as file:
        schema = file.schema_arrow
        layout = parquet_layout(arrow, schema, mapping, path.name, needs_text=False)
        gold = _place(list(schema.names), column, path.name)
        check_label_type(arrow, schema, gold, path.name)
        for some in parquet_rows(file, arrow, sorted({*used_columns(layout), gold}), 0, path.name):
            for row in range(some.count):
                position = SourcePosition(0, some.start + row, some.start + row + 1)
                try:
                    values = some.values(row)
                except Refused as refused:
                    raise _unusable(path, position.offset + 1, refused.error_type) from None
                yield _GoldRow(position.offset + 1, piece_of(values, layout, position), values[gold])


_READERS: Final[
    dict[Format, Callable[[io.BufferedReader, Path, Mapping[str, str], str], Iterator[_GoldRow]]]
] = {"csv": _csv_gold, "jsonl": _jsonl_gold, "parquet": _parquet_gold}


def _label(row: _GoldRow, path: Path) -> str:
    value = row.label
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    if value is ABSENT or not isinstance(value, str) or is_blank(value):
        raise ConfigurationError(
            f"Line {row.line} of {path.name} has no gold label; add it or leave the line out."
        )
    return value


def _object(row: _GoldRow, path: Path) -> Json:
    value = row.label
    if isinstance(value, dict):
        return value
    try:
        found = read_json(value) if isinstance(value, str) else None
    except (JsonInvalid, DuplicateKey):
        found = None
    if not isinstance(found, dict):
        raise ConfigurationError(
            f"Line {row.line} of {path.name} has no object as gold; fields are compared with one, "
            "a single label with --field."
        )
    return found


def _contradicts(path: Path, line: int) -> ConfigurationError:
    return ConfigurationError(f"Line {line} of {path.name} labels a record unlike an earlier line; keep one.")


def _unusable(path: Path, line: int, error_type: str) -> ConfigurationError:
    return ConfigurationError(f"Line {line} of {path.name} cannot be used as gold ({error_type}); repair it.")
