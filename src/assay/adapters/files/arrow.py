"""The part of pyarrow that is used here, as Protocols: the library brings no types of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, cast

from assay.adapters.files.extras import extra


class ArrowType(Protocol):
    """A data type."""

    value_type: ArrowType


class ArrowTypes(Protocol):
    """Questions about data types (`pyarrow.types`)."""

    def is_string(self, t: ArrowType, /) -> bool: ...
    def is_large_string(self, t: ArrowType, /) -> bool: ...
    def is_string_view(self, t: ArrowType, /) -> bool: ...
    def is_binary(self, t: ArrowType, /) -> bool: ...
    def is_large_binary(self, t: ArrowType, /) -> bool: ...
    def is_binary_view(self, t: ArrowType, /) -> bool: ...
    def is_fixed_size_binary(self, t: ArrowType, /) -> bool: ...
    def is_dictionary(self, t: ArrowType, /) -> bool: ...
    def is_integer(self, t: ArrowType, /) -> bool: ...
    def is_null(self, t: ArrowType, /) -> bool: ...
    def is_boolean(self, t: ArrowType, /) -> bool: ...
    def is_floating(self, t: ArrowType, /) -> bool: ...


class Array(Protocol):
    """A column of a batch."""

    type: ArrowType
    indices: Array
    dictionary: Array

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Array: ...
    def cast(self, target: ArrowType, /) -> Array: ...
    def take(self, indices: Array, /) -> Array: ...
    def to_pylist(self) -> list[object]: ...
    def as_py(self) -> object: ...


class Schema(Protocol):
    """Names and types of the columns."""

    names: list[str]
    types: list[ArrowType]


class Batch(Protocol):
    """Some rows."""

    num_rows: int

    def column(self, index: int, /) -> Array: ...


class RowGroup(Protocol):
    """What the file's footer says about some rows that lie together."""

    num_rows: int


class Metadata(Protocol):
    """The file's footer."""

    num_rows: int
    num_row_groups: int

    def row_group(self, index: int, /) -> RowGroup: ...


class ParquetFile(Protocol):
    """A Parquet file, open for reading."""

    schema_arrow: Schema
    metadata: Metadata

    def iter_batches(
        self, *, batch_size: int, row_groups: Sequence[int], columns: Sequence[str], use_threads: bool
    ) -> Iterator[Batch]: ...
    def close(self, force: bool = False) -> None: ...


class MakeParquetFile(Protocol):
    """`pyarrow.parquet.ParquetFile`."""

    def __call__(
        self, source: object, *, pre_buffer: bool, buffer_size: int, read_dictionary: Sequence[str] | None
    ) -> ParquetFile: ...


class Arrow:
    """pyarrow, loaded. Raises `ConfigurationError` where it is not installed."""

    def __init__(self, purpose: str) -> None:
        module = extra("parquet", "pyarrow", purpose)
        parquet = extra("parquet", "pyarrow.parquet", purpose)
        self.types = cast(ArrowTypes, extra("parquet", "pyarrow.types", purpose))
        self.binary = cast(ArrowType, module.binary())
        self.large_binary = cast(ArrowType, module.large_binary())
        compute = extra("parquet", "pyarrow.compute", purpose)
        self.binary_length = cast(Callable[[Array], Array], compute.binary_length)
        self.sum = cast(Callable[[Array], Array], compute.sum)
        self.open = cast(MakeParquetFile, parquet.ParquetFile)
        self.error = cast(type[Exception], module.ArrowException)
