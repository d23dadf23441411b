"""What keeps a publisher from publishing just now: said once in words, tried again ever less often."""

from __future__ import annotations

from collections.abc import Callable

from assay.pipeline.publisher_limits import PublisherLimits
from assay.pipeline.publisher_progress import PublishProgress
from assay.ports import SinkUnavailable
from assay.telemetry import tell


class Trouble:
    """An outage of the sink or of the database, from its first failure to the first success."""

    def __init__(
        self,
        sink: str,
        limits: PublisherLimits,
        progress: PublishProgress,
        *,
        clock: Callable[[], float],
        chance: Callable[[], float],
    ) -> None:
        self._sink = sink
        self._limits = limits
        self._progress = progress
        self._clock = clock
        self._chance = chance
        self._since: float | None = None
        self._of_sink = False
        self._pauses = 0

    def pause(self, away: ConnectionError) -> float:
        """Note a failure; seconds to wait, half of a doubling step and a part of the other half."""
        step = min(self._limits.first_pause * 2.0 ** min(self._pauses, 20), self._limits.longest_pause)
        seconds = step / 2 + self._chance() * step / 2
        self._pauses += 1
        self._since = self._clock() if self._since is None else self._since
        self._of_sink = isinstance(away, SinkUnavailable)
        if isinstance(away, SinkUnavailable):
            self._progress.trouble = f"{self._sink} does not answer ({away.reason})"
            tell("sink_unavailable", sink=self._sink, reason=away.reason, seconds=seconds)
        else:
            self._progress.trouble = "PostgreSQL does not answer"
            tell("database_unavailable", seconds=seconds)
        return seconds

    def database_answers(self) -> None:
        """The end of an outage of the database."""
        if not self._of_sink:
            self.over()

    def over(self) -> None:
        """The end of any outage."""
        if self._since is None:
            return
        lasted = self._clock() - self._since
        if self._of_sink:
            tell("sink_back", sink=self._sink, seconds=lasted)
        else:
            tell("database_back", seconds=lasted)
        self._since, self._pauses, self._progress.trouble = None, 0, None
