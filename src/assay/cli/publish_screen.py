"""A publisher's live progress on standard error."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from assay.cli.logging_setup import json_lines
from assay.pipeline.publisher_progress import PublishProgress
from assay.telemetry import tell

_EVERY_SECONDS: Final = 5.0
_WINDOW_SECONDS: Final = 10.0


class PublishScreen:
    """Live on a terminal, a line every five seconds elsewhere; where log lines are JSON, one of them."""

    def __init__(self, progress: PublishProgress, *, title: str, quiet: bool) -> None:
        self._progress = progress
        self._title = title
        self._quiet = quiet
        self._events = json_lines()
        self._console = Console(stderr=True)
        self._started = time.monotonic()
        self._samples: list[tuple[float, int]] = []
        self._note = ""
        self._live: Live | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started

    def note(self, text: str) -> None:
        """Say something beside the figures."""
        self._note = text

    def __enter__(self) -> Self:
        if self._quiet:
            return self
        if self._console.is_terminal and not self._events:
            self._live = Live(get_renderable=self._render, console=self._console, refresh_per_second=4)
            self._live.start()
        else:
            self._thread = threading.Thread(target=self._show_regularly, name="assay-progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._live is not None:
            self._live.stop()
        if self._thread is not None:
            self._thread.join()

    def _show_regularly(self) -> None:
        while not self._stop.wait(_EVERY_SECONDS):
            p = self._progress
            if self._events:
                tell("publish_progress", published=p.published, backlog=p.backlog, blocked=p.blocked,
                     oldest_seconds=p.oldest_seconds, buckets=p.buckets)  # fmt: skip
            else:
                sys.stderr.write(f"{self._title}: {self._figures()}\n")
                sys.stderr.flush()

    def _render(self) -> Text:
        shown = " · ".join(filter(None, (f"{self._title}: {self._figures()}", self._note)))
        return Text(shown, no_wrap=True, overflow="ellipsis")

    def _figures(self) -> str:
        p = self._progress
        told = [f"published {p.published}", f"{self._rate():.0f}/s"]
        if p.backlog is not None:
            told.append(f"backlog {p.backlog}")
        if p.oldest_seconds is not None:
            told.append(f"oldest {p.oldest_seconds:.0f} s")
        if p.blocked:
            told.append(f"refused {p.blocked}")
        if p.trouble is not None:
            told.append(p.trouble)
        return " · ".join(told)

    def _rate(self) -> float:
        now = time.monotonic()
        self._samples.append((now, self._progress.published))
        while now - self._samples[0][0] > _WINDOW_SECONDS:
            self._samples.pop(0)
        then, before = self._samples[0]
        return (self._progress.published - before) / (now - then) if now > then else 0.0
