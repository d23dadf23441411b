"""The loop that one writes first: per record a claim, a commit, a finish with its event, a commit."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import psycopg

from bench.ceiling import LABEL, ordered_ids
from bench.ceiling_sql import PSYCOPG_CLAIM, PSYCOPG_FINISH
from bench.children import Figures


def prepare(spec: dict[str, Any]) -> Callable[[], Figures]:
    """`url`, `records`: one connection, one record at a time."""
    return lambda: _run(spec["url"], spec["records"])


def _run(url: str, records: int) -> Figures:
    done = 0
    cpu, begun = time.process_time(), time.perf_counter()
    with psycopg.connect(url, autocommit=True, prepare_threshold=0) as connection:
        for record in ordered_ids(records):
            attempt = uuid4()
            connection.execute(PSYCOPG_CLAIM, ([record], [attempt], [b"\x5a" * 32])).fetchall()
            done += len(connection.execute(PSYCOPG_FINISH, ([record], [attempt], [LABEL])).fetchall())
    return {"wall": time.perf_counter() - begun, "cpu": time.process_time() - cpu, "done": float(done)}
