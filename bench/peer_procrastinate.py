"""procrastinate works off jobs that do nothing: its own process."""

from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import Callable
from typing import Any, Final

from bench.children import Figures

_NAME: Final = "noop"


def prepare(spec: dict[str, Any]) -> Callable[[], Figures]:
    """`url`, `concurrency`; with `enqueue` it makes the schema and that many jobs instead."""
    return lambda: asyncio.run(_run(spec))


async def _run(spec: dict[str, Any]) -> Figures:
    module = importlib.import_module("procrastinate")
    app = module.App(connector=module.PsycopgConnector(conninfo=spec["url"]))
    done = 0

    async def noop(payload: str) -> None:
        nonlocal done
        done += 1

    task = app.task(name=_NAME)(noop)
    async with app.open_async():
        if jobs := spec.get("enqueue"):
            await app.schema_manager.apply_schema_async()
            begun = time.perf_counter()
            for first in range(0, jobs, 1000):
                await task.batch_defer_async(
                    *({"payload": "x" * 400} for _ in range(min(1000, jobs - first)))
                )
            return {"wall": time.perf_counter() - begun}
        cpu, begun = time.process_time(), time.perf_counter()
        await app.run_worker_async(
            wait=False, concurrency=spec["concurrency"], install_signal_handlers=False, listen_notify=False
        )
        return {"wall": time.perf_counter() - begun, "cpu": time.process_time() - cpu, "done": float(done)}
