"""How late an event loop is, seen from inside."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Final, Self

from bench.children import Figures
from bench.processes import rss_bytes
from bench.statistics import quantile

_EVERY: Final = 0.01


class Ticker:
    """Asks every 10 ms to be woken, and notes by how much it was later than that."""

    def __init__(self) -> None:
        self._late: list[float] = []
        self._rss = 0
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._tick(), name="ticker")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _EVERY
            await asyncio.sleep(_EVERY)
            self._late.append(max(loop.time() - due, 0.0))
            if len(self._late) % 100 == 0:
                self._rss = max(self._rss, rss_bytes())

    def figures(self) -> Figures:
        """Seconds of lateness at the median, the 99th percentile and the worst; the largest size seen."""
        return {
            "lag_p50": quantile(self._late, 0.5),
            "lag_p99": quantile(self._late, 0.99),
            "lag_max": max(self._late, default=0.0),
            "rss": float(self._rss),
        }
