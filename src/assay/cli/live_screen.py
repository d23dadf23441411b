"""What the live screens of a run and of a publisher have in common."""

from __future__ import annotations

import sys
import threading
import time
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Final, Self

from rich.console import Console, RenderableType
from rich.live import Live

from assay.cli.logging_setup import json_lines

_EVERY_SECONDS: Final = 5.0
_RATE_WINDOW_SECONDS: Final = 10.0


class LiveScreen(ABC):
    """Shows figures on standard error: live on a terminal, a line every five seconds elsewhere.

    Where log lines are JSON, that line is one of them. `per_second`: how often the live picture is drawn.
    """

    def __init__(self, *, title: str, quiet: bool, per_second: int) -> None:
        self._title = title
        self._quiet = quiet
        self._per_second = per_second
        self._events = json_lines()
        self._console = Console(stderr=True)
        self._started = time.monotonic()
        self._ended: float | None = None
        self._note = ""
        self._samples: list[tuple[float, int]] = []
        self._live: Live | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def elapsed(self) -> float:
        """Seconds from start to end (to now while it runs)."""
        return (self._ended or time.monotonic()) - self._started

    def note(self, text: str) -> None:
        """Say something beside the figures."""
        self._note = text

    def __enter__(self) -> Self:
        if self._quiet:
            return self
        if self._console.is_terminal and not self._events:
            self._live = Live(
                get_renderable=self._render, console=self._console, refresh_per_second=self._per_second
            )
            self._live.start()
        else:
            self._thread = threading.Thread(target=self._show_regularly, name="assay-progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended = time.monotonic()
        self._stop.set()
        if self._live is not None:
            self._live.stop()
        if self._thread is not None:
            self._thread.join()

    @abstractmethod
    def _render(self) -> RenderableType:
        """The picture on a terminal."""

    @abstractmethod
    def _line(self) -> str:
        """The figures in a line."""

    @abstractmethod
    def _tell(self) -> None:
        """The figures as a line of the log."""

    def _show_regularly(self) -> None:
        while not self._stop.wait(_EVERY_SECONDS):
            if self._events:
                self._tell()
            else:
                sys.stderr.write(f"{self._title}: {self._line()}\n")
                sys.stderr.flush()

    def _rate_of(self, done: int) -> float:
        """How much more is done per second, over the last ten seconds."""
        now = time.monotonic()
        self._samples.append((now, done))
        while now - self._samples[0][0] > _RATE_WINDOW_SECONDS:
            self._samples.pop(0)
        then, before = self._samples[0]
        return (done - before) / (now - then) if now > then else 0.0
