"""An event loop in a thread of its own: it runs while the process waits for words on its standard input."""

from __future__ import annotations

import asyncio
import os
import threading
import time
import traceback
from collections.abc import Callable, Coroutine
from typing import Final

_LOOK_SECONDS: Final = 0.05


class Background:
    """Runs `main` until it returns. What it raises ends the process: whoever started it sees that."""

    def __init__(self, main: Callable[[], Coroutine[None, None, None]]) -> None:
        self._main = main
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="bench-background", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wait_for(self, happened: Callable[[], bool], what: str, seconds: float) -> None:
        """Wait for something that `main` brings about; raises when it ends, or time does, before."""
        deadline = time.monotonic() + seconds
        while not happened():
            if not self._thread.is_alive():
                raise RuntimeError(f"ended before: {what}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"not within {seconds:g} s: {what}")
            time.sleep(_LOOK_SECONDS)

    def call(self, wanted: Callable[[], object]) -> None:
        """Call something on the loop."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(wanted)

    def join(self) -> None:
        """Wait for the end of `main`."""
        self._thread.join()

    def _run(self) -> None:
        async def main() -> None:
            self._loop = asyncio.get_running_loop()
            await self._main()

        ended = False
        try:
            asyncio.run(main())
            ended = True
        finally:
            if not ended:
                # The main thread waits for words that would never come.
                traceback.print_exc()
                os._exit(1)
