"""Sockets, start and stop of the practice vendor."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aiohttp import web

from assay.vendor.gold import JsonObject
from assay.vendor.practice import LARGEST_REQUEST, Practice
from assay.vendor.settings import Launch, VendorConfig, VendorSettingsError
from assay.vendor.stats import Stats

SECONDS_TO_FINISH: Final = 1.0
"""How long calls in flight may still take after a stop; then they end as `vendor_stopped`."""


@dataclass(frozen=True, slots=True)
class RunningVendor:
    """A vendor that listens. `base_url` ends in `/v1`; `journal` is its file, if it has one."""

    base_url: str
    port: int
    journal: Path | None
    practice: Practice

    def stats(self) -> Stats:
        """What `GET /practice/stats` shows; the counts go on counting."""
        return self.practice.journal.stats

    async def until(self, holds: Callable[[Stats], bool]) -> None:
        """Wait until the counts are as asked: `await vendor.until(lambda stats: stats.in_flight == 20)`."""
        await self.practice.journal.until(holds)

    def calls_with_key(self, key: str) -> int:
        """How many calls carried this Idempotency-Key."""
        return self.practice.journal.calls_with_key(key)

    async def change(self, settings: JsonObject, seconds: float | None = None) -> None:
        """Change settings at once, as `POST /practice/settings` does: `await vendor.change({"html": 1.0})`.

        With `seconds`, what was before holds again then. Raises VendorSettingsError, changing nothing.
        """
        await self.practice.change(settings, "process", seconds)

    @property
    def config(self) -> VendorConfig:
        """The settings that hold now."""
        return self.practice.control.config


@asynccontextmanager
async def start_vendor(config: VendorConfig) -> AsyncIterator[RunningVendor]:
    """Serve in this event loop until the block ends. Raises VendorSettingsError where it cannot start."""
    practice = Practice(config)
    app = web.Application(client_max_size=LARGEST_REQUEST)
    app.add_routes(practice.routes())
    # A handler is cancelled when its client goes away: that is how a killed worker gets into the journal.
    runner = web.AppRunner(
        app,
        access_log=None,
        handler_cancellation=True,
        shutdown_timeout=SECONDS_TO_FINISH,
        handle_signals=False,
    )
    await runner.setup()
    try:
        port = await practice.door.open(runner, config)
        shown = f"[{config.host}]" if ":" in config.host else config.host
        practice.begin()
        yield RunningVendor(f"http://{shown}:{port}/v1", port, config.journal, practice)
    finally:
        practice.stopping = True
        practice.control.stop()
        await practice.door.close()
        await runner.cleanup()
        practice.journal.close()


def serve(launch: Launch) -> None:
    """Serve until SIGTERM or SIGINT (or, if asked, until standard input closes).

    When it listens, one line on standard output names the base URL, and the ready file is written in one
    step, holding the base URL and a line break. The ready file is removed at the stop.
    """
    try:
        asyncio.run(_serve(launch))
    finally:
        if launch.ready_file is not None:
            launch.ready_file.unlink(missing_ok=True)


async def _serve(launch: Launch) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with start_vendor(launch.config) as vendor:
        if launch.stop_with_stdin:
            threading.Thread(target=_wait_for_end_of_stdin, args=(loop, stop), daemon=True).start()
        if launch.ready_file is not None:
            _write_whole(launch.ready_file, vendor.base_url + "\n")
        print(f"vendor listening on {vendor.base_url}", flush=True)
        await stop.wait()


def _wait_for_end_of_stdin(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    while os.read(0, 65_536):
        pass
    loop.call_soon_threadsafe(stop.set)


def _write_whole(path: Path, text: str) -> None:
    """Write beside the file and rename: a reader sees all of it or nothing."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).replace(path)
    except OSError as error:
        raise VendorSettingsError(f"the ready file {path} cannot be written; check --ready-file") from error
