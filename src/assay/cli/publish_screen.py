"""A publisher's live progress on standard error."""

from __future__ import annotations

from rich.text import Text

from assay.cli.live_screen import LiveScreen
from assay.pipeline.publisher_progress import PublishProgress
from assay.telemetry import tell


class PublishScreen(LiveScreen):
    """Shows a `PublishProgress`."""

    def __init__(self, progress: PublishProgress, *, title: str, quiet: bool) -> None:
        super().__init__(title=title, quiet=quiet, per_second=4)
        self._progress = progress

    def _tell(self) -> None:
        p = self._progress
        tell("publish_progress", published=p.published, backlog=p.backlog, blocked=p.blocked,
             oldest_seconds=p.oldest_seconds, buckets=p.buckets)  # fmt: skip

    def _render(self) -> Text:
        shown = " · ".join(filter(None, (f"{self._title}: {self._line()}", self._note)))
        return Text(shown, no_wrap=True, overflow="ellipsis")

    def _line(self) -> str:
        p = self._progress
        told = [f"published {p.published}", f"{self._rate_of(p.published):.0f}/s"]
        if p.backlog is not None:
            told.append(f"backlog {p.backlog}")
        if p.oldest_seconds is not None:
            told.append(f"oldest {p.oldest_seconds:.0f} s")
        if p.blocked:
            told.append(f"refused {p.blocked}")
        if p.trouble is not None:
            told.append(p.trouble)
        return " · ".join(told)
