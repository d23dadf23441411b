"""Why a source should deliver nothing just now, told to it while the worker runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from assay.ports import AssignedSource

_LOOK_EVERY_SECONDS: Final = 0.1


class Backpressure:
    """`reasons` by name, each a question: a source that is held back for one goes on when none is left."""

    def __init__(self, source: AssignedSource, reasons: Mapping[str, Callable[[], bool]]) -> None:
        self._source = source
        self._reasons = reasons

    async def watch(self) -> None:
        """Look every moment, until cancelled; what passes in between is bounded by the buffers."""
        while True:
            self._source.hold_back([name for name, holds in self._reasons.items() if holds()])
            await asyncio.sleep(_LOOK_EVERY_SECONDS)
