"""Array parameters in PostgreSQL's binary format, encoded a column at a time.

psycopg looks at every element of an array more than once, which for the forty columns of a batch of finishes
was a tenth of a worker's time. Columns of the common types are packed here, all others are left to psycopg.
Every integer column is sent as int8[]: its type no longer depends on its values, and a statement is prepared
once.

Layout (PostgreSQL, `array_recv`): number of dimensions, whether there are nulls, element type; length and
lower bound of the dimension; then of each element its length in bytes (-1: null) and its bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final
from uuid import UUID

import psycopg
from psycopg.abc import AdaptContext
from psycopg.adapt import Buffer, Dumper, PyFormat
from psycopg.pq import Format
from psycopg.types.array import ListBinaryDumper

_HEAD: Final = struct.Struct("!iiIii").pack
_LENGTH: Final = struct.Struct("!i").pack
_INT: Final = struct.Struct("!iq").pack
_FLOAT: Final = struct.Struct("!id").pack
_NULL: Final = _LENGTH(-1)
_BOOLS: Final = {value: _LENGTH(1) + bytes([value]) for value in (False, True)}
_UUID_LENGTH: Final = _LENGTH(16)


class Column(list[Any]):
    """The values of one array parameter: of one type or None, not all of them None."""


def _text(value: str) -> bytes:
    encoded = value.encode()
    return _LENGTH(len(encoded)) + encoded


# What a first element makes of a column: the element's type in PostgreSQL and how one element is written.
_WRITERS: Final[Mapping[type, tuple[str, Callable[[Any], bytes]]]] = {
    bool: ("bool", _BOOLS.__getitem__),
    int: ("int8", lambda value: _INT(8, value)),
    float: ("float8", lambda value: _FLOAT(8, value)),
    str: ("text", _text),
    bytes: ("bytea", lambda value: _LENGTH(len(value)) + value),
    UUID: ("uuid", lambda value: _UUID_LENGTH + value.int.to_bytes(16)),
}


def _element(values: list[Any]) -> type:
    return type(next((value for value in values if value is not None), None))


class _PackedDumper(Dumper):
    """Writes columns whose elements have one type of `_WRITERS`."""

    format = Format.BINARY

    def __init__(self, element: type, context: AdaptContext | None = None) -> None:
        super().__init__(Column, context)
        name, self._write = _WRITERS[element]
        info = psycopg.adapters.types[name]
        self.oid, self._element_oid = info.array_oid, info.oid

    def dump(self, obj: Column) -> Buffer:
        """The bytes of the parameter. Raises `psycopg.DataError` for a value that its type cannot hold."""
        write, nulls = self._write, any(value is None for value in obj)
        try:
            if nulls:
                written = [_NULL if value is None else write(value) for value in obj]
            else:
                written = list(map(write, obj))
        except (struct.error, KeyError) as error:
            raise psycopg.DataError(f"a column of {self.oid} holds a value that does not fit") from error
        return _HEAD(1, nulls, self._element_oid, len(obj), 1) + b"".join(written)


class ColumnDumper(ListBinaryDumper):
    """Chooses by the first value how a column is written; psycopg's own way for types that are not common."""

    def get_key(self, obj: list[Any], format: PyFormat) -> Any:
        """What psycopg keeps the chosen dumper under."""
        element = _element(obj)
        return (Column, element) if element in _WRITERS else super().get_key(obj, format)

    def upgrade(self, obj: list[Any], format: PyFormat) -> Any:
        """The dumper for columns such as this one."""
        element = _element(obj)
        return _PackedDumper(element, self._tx) if element in _WRITERS else super().upgrade(obj, format)


# For every connection of the process: the class is ours alone.
psycopg.adapters.register_dumper(Column, ColumnDumper)
