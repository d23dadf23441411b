"""Labels as Parquet: one column per field, with types that follow from the contract and from nothing else.

A field that can be null, or that other versions do not have, is null. Text, choices and exact numbers are
strings as they were written; a number with fixed decimal places (`multiple_of` 0.01) is a decimal128 of that
scale; integers are int64, dates date32. What has no such type (arrays, objects, fields whose type differs
between versions) is JSON text, and its column says so in its metadata (`assay`: `json`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from types import ModuleType
from typing import BinaryIO, Final, Protocol, cast

from assay.adapters.files.extras import extra
from assay.adapters.postgres.result_store import Annotation
from assay.cli.label_fields import LabelFields
from assay.domain.failures import AssayError
from assay.domain.json_text import Json, Number

_BATCH: Final = 2_000
_INT64: Final = range(-(2**63), 2**63)
_DIGITS: Final = 38


class _Writer(Protocol):
    def write_batch(self, batch: object, /) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name, what it holds in the words below, and the decimal places of a `decimal`."""

    name: str
    kind: str
    scale: int = 0


Row = Mapping[str, object]


def label_columns(fields: Sequence[LabelFields], keys: Sequence[str]) -> list[Column]:
    """The columns `label.KEY` of these versions, newest first."""
    columns = []
    for key in keys:
        kinds = {_kind(found.schema, key) for found in fields if key in found.keys}
        kind, scale = kinds.pop() if len(kinds) == 1 else ("json", 0)
        columns.append(Column(f"label.{key}", kind, scale))
    return columns


def _kind(schema: Mapping[str, object], key: str) -> tuple[str, int]:
    """What a top-level field holds when it is not null."""
    properties = schema.get("properties")
    found = properties.get(key) if isinstance(properties, Mapping) else None
    members = found.get("anyOf", [found]) if isinstance(found, Mapping) else []
    kinds = {_member_kind(member) for member in members if isinstance(member, Mapping)} - {("null", 0)}
    return kinds.pop() if len(kinds) == 1 else ("json", 0)


def _member_kind(schema: Mapping[str, object]) -> tuple[str, int]:
    types = schema.get("type")
    named = set(types) - {"null"} if isinstance(types, list) else {types}
    if named == {"string"}:
        return ("date" if schema.get("format") == "date" else "text"), 0
    if named == {"number"}:
        places = _places(schema.get("multipleOf"))
        return ("number", 0) if places is None else ("decimal", places)
    if named in ({"integer"}, {"boolean"}):
        return named.pop(), 0
    return ("null", 0) if named <= {"null"} and types is not None else ("json", 0)


def _places(step: object) -> int | None:
    """The decimal places of a step that is a power of ten, such as 0.01."""
    if isinstance(step, bool) or not isinstance(step, int | float | str | Decimal):
        return None
    parts = Decimal(str(step)).normalize().as_tuple()
    if parts.digits != (1,) or not isinstance(parts.exponent, int) or not -_DIGITS < parts.exponent <= 0:
        return None
    return -parts.exponent


class ParquetRows:
    """Rows written a few thousand at a time. `close` writes the footer."""

    def __init__(self, stream: BinaryIO, columns: Sequence[Column], as_json: Callable[[object], str]) -> None:
        self._arrow = extra("parquet", "pyarrow", "--format parquet")
        parquet = extra("parquet", "pyarrow.parquet", "--format parquet")
        self._columns = columns
        self._as_json = as_json
        self._types = [_type(self._arrow, column) for column in columns]
        self._schema = self._arrow.schema([
            self._arrow.field(column.name, kind, metadata=_metadata(column))
            for column, kind in zip(columns, self._types, strict=True)
        ])  # fmt: skip
        self._writer = cast(_Writer, parquet.ParquetWriter(stream, self._schema))
        self._waiting: list[Row] = []

    def write(self, row: Row) -> None:
        """Adds a row: values by column name; a column that is not named is null."""
        self._waiting.append(row)
        if len(self._waiting) >= _BATCH:
            self._flush()

    def close(self) -> None:
        """Writes what waits, and the footer."""
        try:
            if self._waiting:
                self._flush()
        finally:
            self._writer.close()

    def _flush(self) -> None:
        rows, self._waiting = self._waiting, []
        arrays = [
            self._arrow.array([self._value(column, row.get(column.name)) for row in rows], type=kind)
            for column, kind in zip(self._columns, self._types, strict=True)
        ]
        self._writer.write_batch(self._arrow.record_batch(arrays, schema=self._schema))

    def _value(self, column: Column, value: object) -> object:
        if value is None:
            return None
        if column.kind == "json":
            return self._as_json(value)
        if isinstance(value, Number):
            return _number(column, str.__str__(value))
        if column.kind == "date" and isinstance(value, str):
            return date.fromisoformat(value)
        return str.__str__(value) if isinstance(value, str) else value


def _number(column: Column, written: str) -> object:
    """A number as its column holds it, never rounded."""
    if column.kind == "number":
        return written
    exact = Decimal(written)
    if column.kind == "integer" and exact == exact.to_integral_value() and int(exact) in _INT64:
        return int(exact)
    if column.kind == "decimal":
        scaled = exact.scaleb(column.scale)
        if scaled == scaled.to_integral_value() and abs(int(scaled)) < 10**_DIGITS:
            return exact
    raise AssayError(
        f"A value of {column.name} does not fit its Parquet column; export it with --format jsonl."
    )


def _metadata(column: Column) -> dict[str, str] | None:
    return {"assay": "json"} if column.kind == "json" else None


def _type(arrow: ModuleType, column: Column) -> object:
    makers: dict[str, Callable[[], object]] = {
        "integer": arrow.int64, "boolean": arrow.bool_, "date": arrow.date32, "int32": arrow.int32,
        "double": arrow.float64, "decimal": lambda: arrow.decimal128(_DIGITS, column.scale),
    }  # fmt: skip
    return makers.get(column.kind, arrow.string)()


def annotation_columns(names: Iterable[str]) -> list[Column]:
    """The columns that every annotation has. A confidence is the nearest double."""
    kinds = {"input_version": "int32", "attempts": "int32", "revision": "int32", "confidence": "double"}
    return [Column(name, kinds.get(name, "text")) for name in names]


def annotation_values(annotation: Annotation, names: Iterable[str], digest: str) -> dict[str, object]:
    """The values of those columns."""
    values: dict[str, object] = {
        name: digest if name == "pipeline_version" else getattr(annotation, name) for name in names
    }
    if annotation.confidence is not None:
        values["confidence"] = float(annotation.confidence)
    return values


def label_values(label: Json) -> dict[str, object]:
    """The values of the label's columns."""
    return {f"label.{key}": value for key, value in label.items()} if isinstance(label, dict) else {}
