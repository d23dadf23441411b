"""pyarrow, for tests that write and read Parquet; the library brings no types of its own."""

from __future__ import annotations

from importlib import import_module

pa = import_module("pyarrow")
pq = import_module("pyarrow.parquet")
