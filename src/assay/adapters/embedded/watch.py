"""How a supervisor waits: for a signal, a word from `stop`, or a moment, whichever comes first."""

from __future__ import annotations

import os
import select
import signal
from types import FrameType

from assay.adapters.embedded.state import Places


class StopAsked(Exception):
    """The supervisor is to stop the server and end."""


class Watch:
    """Wakes the supervisor when a child ends or a signal asks it to stop. One per process."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self.signals = 0
        self._reader, writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, self._child_ended)
        signal.signal(signal.SIGTERM, self._asked)
        signal.signal(signal.SIGINT, self._asked)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        # The starter's mask came along through exec; one that blocks SIGTERM would make us deaf.
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

    def wait(self, seconds: float) -> None:
        """Return after a signal, or after `seconds`."""
        ready, _, _ = select.select([self._reader], [], [], seconds)
        if ready:
            os.read(self._reader, 4096)

    def tick(self, seconds: float) -> None:
        """Wait; raise StopAsked when a signal or `stop` asked for the end, or the state folder is gone."""
        self.wait(seconds)
        if self.signals or self._places.stop_request.exists() or folder_gone(self._places):
            raise StopAsked

    def _asked(self, number: int, frame: FrameType | None) -> None:
        self.signals += 1

    def _child_ended(self, number: int, frame: FrameType | None) -> None:
        """The wakeup is the whole effect."""


def folder_gone(places: Places) -> bool:
    """True when the state folder was removed, or is being removed: nothing may be written into it then."""
    return not places.state.exists()
