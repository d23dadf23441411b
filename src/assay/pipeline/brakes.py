"""What may stop a version while it runs: a configuration failure, a stop made elsewhere, a spend cap.

A configuration failure stops the version for all its workers, durably: records wait, none is burnt, and no
attempt or age is used up meanwhile. A person who runs it again after mending clears the stop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from assay.pipeline.attempt import Stopped
from assay.pipeline.spend import SpendGuard
from assay.ports import VersionPort
from assay.telemetry import tell

_LOOK_EVERY_SECONDS: Final = 1.0


class Brakes:
    """Knows whether the version may go on. `on_stop` is called once, when it may not."""

    def __init__(self, versions: VersionPort, spend: SpendGuard, on_stop: Callable[[], None]) -> None:
        self._versions = versions
        self._spend = spend
        self._on_stop = on_stop
        self._stop: Stopped | None = None

    @property
    def stop(self) -> Stopped | None:
        """Why the version may not go on; None while it may."""
        if self._stop is None and self._spend.stop is not None:
            return Stopped(self._spend.stop.code, None, self._spend.stop.sentence)
        return self._stop

    async def pull(self, stop: Stopped) -> None:
        """A call has shown that nothing will work until a person acts: stop every worker of the version."""
        if self._stop is None:
            self._stop = stop
            self._on_stop()
            await self._versions.stop(stop.code, stop.status)
            tell("version_stopped", code=stop.code, http_status=stop.status)

    async def watch(self) -> None:
        """Look once a second what others did, and keep the reservation alive. Runs until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_EVERY_SECONDS)
            if await self._spend.sync() is not None:
                self._on_stop()
            found = await self._versions.stopped()
            if found is not None and self._stop is None:
                self._stop = Stopped(found.code, found.http_status)
                self._on_stop()
