"""Connections that only read: one snapshot for all statements of a report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import LiteralString

import psycopg
from psycopg.rows import TupleRow, dict_row, tuple_row

Row = dict[str, object]
"""A row by column name."""


@contextmanager
def reading(url: str) -> Iterator[psycopg.Connection[TupleRow]]:
    """A read-only connection whose statements all see the same moment."""
    with psycopg.connect(url, row_factory=tuple_row, application_name="assay read") as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        yield connection


def rows(
    connection: psycopg.Connection[TupleRow], sql: LiteralString, parameters: Mapping[str, object]
) -> list[Row]:
    """All rows of a query, by column name."""
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(sql, parameters).fetchall()


def grouped(found: Sequence[Row], by: str) -> dict[object, list[Row]]:
    """Rows by the value of one column, which they lose."""
    groups: dict[object, list[Row]] = {}
    for row in found:
        groups.setdefault(row[by], []).append({name: value for name, value in row.items() if name != by})
    return groups
