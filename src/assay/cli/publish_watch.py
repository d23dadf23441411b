"""What keeps a publisher from publishing, said to a person: also while there is nothing to publish."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from assay.domain.failures import AssayError
from assay.pipeline.publisher_progress import PublishProgress

# A connection that takes a little longer is no outage: it is asked twice before anything is said.
_FAILURES: Final = 2
_SHARE_SECONDS: Final = 3.0
_EVERY_SECONDS, _AGAIN_SECONDS = 3.0, 0.5
_SAID_AGAIN_SECONDS: Final = 60.0


class PublishWatch:
    """Says at once, and then once a minute, that a sink does not answer, and when it answers again.

    `ask` asks the brokers for a sign of life, for two seconds or so, and raises `AssayError` for what a
    person should know; None for sinks that cannot be asked. `lease` is that of a publisher, in seconds.
    """

    def __init__(
        self, progress: PublishProgress, *, ask: Callable[[], object] | None, lease: float,
        told: Callable[[str], None], clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._progress = progress
        self._ask = ask
        self._lease = lease
        self._told = told
        self._clock = clock
        self._failures = 0
        self._published = 0
        self._mine: str | None = None
        self._since: float | None = None
        self._said_at = 0.0
        self._no_share_since: float | None = None
        self._said_share = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look_regularly, name="assay-publish-watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def look(self) -> None:
        """Look once."""
        self._look_at_share()
        found = self._trouble()
        now = self._clock()
        if found is None:
            if self._since is not None:
                self._told(f"It goes on again after {now - self._since:.0f} s.")
            self._since = None
        elif self._since is None:
            self._since = self._said_at = now
            self._told(f"{found} Events wait in the outbox; it is tried again until it works.")
        elif now - self._said_at >= _SAID_AGAIN_SECONDS:
            self._said_at = now
            self._told(f"{found} So for {now - self._since:.0f} s; it is still tried.")

    def _look_regularly(self) -> None:
        while not self._stop.wait(_AGAIN_SECONDS if self._failures else _EVERY_SECONDS):
            self.look()

    def _trouble(self) -> str | None:
        """What the publisher met itself, or, where it had nothing to send, what the brokers answer."""
        progress = self._progress
        own = progress.trouble if progress.trouble != self._mine else None
        away = self._away()
        self._failures = 0 if away is None else self._failures + 1
        if own is not None:
            return away or f"{own}."
        if self._failures >= _FAILURES:
            progress.trouble = self._mine = "the brokers do not answer"
            return away
        if progress.trouble == self._mine:
            progress.trouble = self._mine = None
        return None

    def _away(self) -> str | None:
        """Why the brokers do not answer; None where they do, as they have where something was published."""
        sent, self._published = self._progress.published > self._published, self._progress.published
        if self._ask is None or sent:
            return None
        try:
            self._ask()
        except AssayError as away:
            return str(away)
        return None

    def _look_at_share(self) -> None:
        """A publisher that was killed holds its share of the outbox until its lease ends."""
        progress, now = self._progress, self._clock()
        if progress.buckets or not progress.backlog:
            self._no_share_since = None
            return
        self._no_share_since = now if self._no_share_since is None else self._no_share_since
        if not self._said_share and now - self._no_share_since >= _SHARE_SECONDS:
            self._said_share = True
            self._told(
                "Another publisher holds the whole outbox. If it was killed, its share is taken over once "
                f"its lease has ended, {self._lease:.0f} s after its last sign of life at most."
            )
