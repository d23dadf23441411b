"""pgqueuer drains jobs that do nothing: its own process, its best documented setting."""

from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import Callable
from typing import Any, Final

from bench.children import Figures

_NAME: Final = "noop"
_ENQUEUE_BATCH: Final = 1000


def prepare(spec: dict[str, Any]) -> Callable[[], Figures]:
    """`url`, `batch`; with `enqueue` it fills the queue of a fresh database instead."""
    if spec.get("enqueue"):
        return lambda: asyncio.run(_enqueue(spec["url"], spec["enqueue"]))
    return lambda: asyncio.run(_drain(spec["url"], spec["batch"]))


async def _connect(url: str) -> tuple[Any, Any]:
    connection = await importlib.import_module("asyncpg").connect(url)
    driver = importlib.import_module("pgqueuer.adapters.drivers.asyncpg").AsyncpgDriver(connection)
    return connection, driver


async def _enqueue(url: str, jobs: int) -> Figures:
    connection, driver = await _connect(url)
    queries = importlib.import_module("pgqueuer.queries").Queries(driver)
    await queries.install()
    begun = time.perf_counter()
    for first in range(0, jobs, _ENQUEUE_BATCH):
        count = min(_ENQUEUE_BATCH, jobs - first)
        await queries.enqueue([_NAME] * count, [b"x" * 400] * count, [0] * count)
    wall = time.perf_counter() - begun
    await connection.close()
    return {"wall": wall}


async def _drain(url: str, batch: int) -> Figures:
    connection, driver = await _connect(url)
    queries = importlib.import_module("pgqueuer.queries").Queries(driver)
    manager = importlib.import_module("pgqueuer.core.qm").QueueManager(queries)
    done = 0

    async def noop(job: object) -> None:
        nonlocal done
        done += 1

    manager.entrypoint(_NAME)(noop)
    drain = importlib.import_module("pgqueuer.domain.types").QueueExecutionMode.drain
    cpu, begun = time.process_time(), time.perf_counter()
    await manager.run(batch_size=batch, mode=drain)
    figures = {"wall": time.perf_counter() - begun, "cpu": time.process_time() - cpu, "done": float(done)}
    await connection.close()
    return figures
