"""Which columns of a Parquet file can fill fields, and their values as bytes and integers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from assay.adapters.files.arrow import Array, Arrow, ArrowType, Batch, Schema
from assay.adapters.files.mapping import Layout, layout_of
from assay.domain.failures import ConfigurationError

_UNFOLDED_BYTES: Final = 4 << 20


def used_columns(layout: Layout) -> list[int]:
    """The places of all columns that fill a field, in the file's order, each once."""
    single = (layout.text, layout.document_ref, layout.record_id, layout.input_version)
    return sorted({place for place in single if place is not None} | {at for _, at in layout.attributes})


def is_text(arrow: Arrow, kind: ArrowType) -> bool:
    """Whether values are text, or bytes that may be text."""
    types = arrow.types
    if types.is_dictionary(kind):
        return is_text(arrow, kind.value_type)
    return any(
        is_kind(kind)
        for is_kind in (
            types.is_string, types.is_large_string, types.is_string_view, types.is_binary,
            types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary,
        )
    )  # fmt: skip


def check_types(arrow: Arrow, schema: Schema, layout: Layout, file: str) -> None:
    """Raises `ConfigurationError` for a column that is neither text nor, where one fits, an integer."""
    for place in used_columns(layout):
        kind = schema.types[place]
        version = place == layout.input_version
        integer_fits = place not in (layout.text, layout.document_ref)
        if arrow.types.is_null(kind) or (integer_fits and arrow.types.is_integer(kind)):
            continue
        if is_text(arrow, kind) and not version:
            continue
        wanted = "an integer" if version else "text"
        raise ConfigurationError(
            f"The column {schema.names[place]} of {file} is {kind}, where {wanted} is needed; write it as "
            f"{wanted}, or map another column."
        )


def check_label_type(arrow: Arrow, schema: Schema, place: int, file: str) -> None:
    """Raises `ConfigurationError` for a column that holds no labels: nested values, times and such."""
    kind, types = schema.types[place], arrow.types
    if not (
        is_text(arrow, kind) or types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind)
    ):
        raise ConfigurationError(
            f"The column {schema.names[place]} of {file} is {kind}, which is no label; write it as text."
        )


def parquet_layout(
    arrow: Arrow,
    schema: Schema,
    mapping: Mapping[str, str],
    file: str,
    *,
    needs_text: bool = True,
    documents: bool = False,
) -> Layout:
    """Finds the columns and checks their types. Raises `ConfigurationError`."""
    layout = layout_of(schema.names, mapping, file, needs_text=needs_text, documents=documents)
    check_types(arrow, schema, layout, file)
    return layout


class Values(Protocol):
    """The values of one column in a batch, by row: bytes of a text, a number, a boolean, or None."""

    def __getitem__(self, row: int, /) -> object: ...


@dataclass(frozen=True, slots=True)
class _OneByOne:
    """Values taken from a dictionary when they are asked for."""

    indices: Array
    dictionary: Array

    def __getitem__(self, row: int, /) -> object:
        index = self.indices[row].as_py()
        return self.dictionary[index].as_py() if isinstance(index, int) else None


def values_of(arrow: Arrow, batch: Batch, index: int) -> Values:
    """A column of a batch. Texts come as bytes: nothing has checked that they are UTF-8.

    A long text that stands in a dictionary may be meant by every row of the batch: together they are unfolded
    only where that is little.
    """
    column = batch.column(index)
    if not arrow.types.is_dictionary(column.type):
        return _as_bytes(arrow, column).to_pylist()
    size = arrow.sum(arrow.binary_length(column.dictionary).take(column.indices)).as_py()
    if isinstance(size, int) and size > _UNFOLDED_BYTES:
        return _OneByOne(column.indices, _as_bytes(arrow, column.dictionary))
    return _as_bytes(arrow, column.dictionary.take(column.indices)).to_pylist()


def _as_bytes(arrow: Arrow, column: Array) -> Array:
    if not is_text(arrow, column.type):
        return column
    wide = arrow.types.is_large_string(column.type) or arrow.types.is_large_binary(column.type)
    return column.cast(arrow.large_binary if wide else arrow.binary)
