"""A running PostgreSQL as its supervisor sees it: started as a child, or adopted; and how it is stopped."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from typing import Protocol

from assay.adapters.embedded.locks import held_exclusively
from assay.adapters.embedded.postmaster import is_shutting_down, living_postmaster
from assay.adapters.embedded.processes import CleanProcess, Life, life_of
from assay.adapters.embedded.state import Places

_POLL_SECONDS = 0.02
# Fast; immediate (recovery at the next start, nothing is lost); by force. With the seconds each may take.
# Fast is not waited for longer, because PostgreSQL never ends when it is asked for while it recovers from
# a killed backend. The checkpoint of a shutdown under way may take its time.
_STOPPING = ((signal.SIGINT, 5.0), (signal.SIGQUIT, 10.0), (signal.SIGKILL, 10.0))
_CHECKPOINT_SECONDS = 600.0


class Waiting(Protocol):
    """How to wait; `signals` counts the requests to hurry."""

    signals: int

    def wait(self, seconds: float) -> None: ...


@dataclass(slots=True)
class RunningServer:
    """A postmaster. `child` is None when an earlier supervisor started it."""

    places: Places
    pid: int
    port: int
    child: CleanProcess | None

    def lives(self) -> bool:
        """False once the postmaster has ended (and has been reaped when it is our child)."""
        if self.child is not None:
            return self.child.poll() is None
        found = living_postmaster(self.places.data)
        return found is not None and found.pid == self.pid and held_exclusively(self.places.server_lock)

    def stop(self, waiting: Waiting, *, rudely: bool = False) -> None:
        """Stop it, politely first unless `rudely`. A request to hurry goes on to the next, ruder way."""
        for number, patience in _STOPPING[1 if rudely else 0 :]:
            signals = waiting.signals
            if self.lives():
                self._send(number)
            started = time.monotonic()
            while self.lives() and waiting.signals == signals:
                waited = time.monotonic() - started
                if waited > patience and not (
                    is_shutting_down(self.places.data) and waited < _CHECKPOINT_SECONDS
                ):
                    break
                waiting.wait(_POLL_SECONDS)

    def _send(self, number: signal.Signals) -> None:
        """One that was stopped (SIGSTOP) is continued, or it would never see the signal."""
        try:
            os.kill(self.pid, number)
            if life_of(self.pid) is Life.STOPPED:
                os.kill(self.pid, signal.SIGCONT)
        except ProcessLookupError:
            return  # it ended meanwhile, which is what the signal was for
