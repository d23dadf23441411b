"""The drill's questions to databases, one file of SQL each."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def statement(name: str) -> bytes:
    """The text of `sql/NAME.sql`."""
    return (files("assay.drill") / "sql" / f"{name}.sql").read_bytes()
