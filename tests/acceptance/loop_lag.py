"""Runs an assay command with its event loop watched: `python loop_lag.py FIGURES.json run ...`.

Every 20 ms a timer looks how late it is. The figures, in milliseconds, are written when the loop ends.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final, TypeVar

from assay.cli.main import main

T = TypeVar("T")
EVERY_SECONDS: Final = 0.02


async def _watch(lags: list[float]) -> None:
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + EVERY_SECONDS
        await asyncio.sleep(EVERY_SECONDS)
        lags.append((loop.time() - due) * 1000)


def share(sorted_lags: list[float], part: float) -> float:
    """The lag below which this part of all looks was."""
    return round(sorted_lags[min(int(len(sorted_lags) * part), len(sorted_lags) - 1)], 1)


def watched(run: Callable[..., T], figures: Path) -> Callable[..., T]:
    """`asyncio.run` that also watches."""

    def start(work: Coroutine[Any, Any, T]) -> T:
        async def both() -> T:
            lags: list[float] = []
            watching = asyncio.create_task(_watch(lags))
            try:
                return await work
            finally:
                watching.cancel()
                found.extend(sorted(lags))

        found: list[float] = []
        try:
            return run(both())
        finally:
            shown = {f"p{part:g}": share(found, part / 100) for part in (50, 99, 99.9)}
            figures.write_text(json.dumps(shown | {"most": round(found[-1], 1), "looks": len(found)}))

    return start


if __name__ == "__main__":
    asyncio.run = watched(asyncio.run, Path(sys.argv[1]))
    sys.argv = ["assay", *sys.argv[2:]]
    main()
