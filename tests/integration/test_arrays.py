"""Columns arrive in PostgreSQL as they were sent, whatever their type."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any
from uuid import UUID

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.adapters.postgres.arrays import Column
from assay.adapters.postgres.session import columns

_TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"))
_ELEMENTS: dict[str, st.SearchStrategy[Any]] = {
    "int8": st.integers(-(2**63), 2**63 - 1),
    "float8": st.floats(allow_nan=False),
    "bool": st.booleans(),
    "text": _TEXTS,
    "bytea": st.binary(),
    "uuid": st.uuids(),
    "numeric": st.decimals(allow_nan=False, allow_infinity=False, places=6),
}


@pytest.fixture(scope="module")
def connection(server_url: str) -> Any:
    with psycopg.connect(server_url, autocommit=True) as opened:
        yield opened


@pytest.mark.parametrize("name", _ELEMENTS)
def test_values_come_back(name: str, connection: psycopg.Connection[Any]) -> None:
    element = _ELEMENTS[name]

    @given(
        st.lists(element | st.none(), min_size=1).filter(lambda values: any(v is not None for v in values))
    )
    def come_back(values: list[Any]) -> None:
        found = connection.execute(f"SELECT %b::{name}[]", (Column(values),)).fetchone()
        assert found == (values,)

    come_back()


def test_the_type_sent_does_not_depend_on_the_values(connection: psycopg.Connection[Any]) -> None:
    for values in ([1], [2**40], [None, 1]):
        found = connection.execute("SELECT pg_typeof(%b)::text", (Column(values),)).fetchone()
        assert found == ("bigint[]",)


def test_smaller_types_are_cast_and_refuse_what_they_cannot_hold(connection: psycopg.Connection[Any]) -> None:
    assert connection.execute("SELECT %b::int2[], %b::float4[]", (Column([7]), Column([0.5]))).fetchone() == (
        [7],
        [0.5],
    )
    with pytest.raises(psycopg.DataError):
        connection.execute("SELECT %b::int2[]", (Column([70_000]),))


@pytest.mark.parametrize("values", [[2**63], [1, 0.5], [1, "x"], [0.5, "x"], [True, 7]])
def test_a_value_of_another_kind_is_refused(values: list[Any], connection: psycopg.Connection[Any]) -> None:
    with pytest.raises(psycopg.DataError, match="does not fit"):
        connection.execute("SELECT %b", (Column(values),))
    assert connection.execute("SELECT 1").fetchone() == (1,), "the connection is still good"


def test_a_column_without_values_is_null_and_no_rows_are_empty_arrays(
    connection: psycopg.Connection[Any],
) -> None:
    sent = columns([(1, None, UUID(int=1), math.pi), (2, None, None, None)], ("a", "b", "c", "d"))
    query = "SELECT * FROM unnest(%(a)b::int8[], %(b)b::text[], %(c)b::uuid[], %(d)b::float8[])"
    found = connection.execute(query, sent).fetchall()
    assert found == [(1, None, UUID(int=1), math.pi), (2, None, None, None)]
    nothing = columns([], ("a", "b", "c", "d"))
    assert connection.execute(query, nothing).fetchall() == []


def test_nested_and_uncommon_values_are_left_to_the_driver(connection: psycopg.Connection[Any]) -> None:
    sent = Column([Decimal("1.50"), None, Decimal("1e30")])
    assert connection.execute("SELECT %b::numeric[]", (sent,)).fetchone() == (list(sent),)
