"""A running PostgreSQL as its supervisor sees it: started as a child, or adopted."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass

from assay.adapters.embedded.locks import held_exclusively
from assay.adapters.embedded.postmaster import living_postmaster
from assay.adapters.embedded.processes import CleanProcess, Life, life_of
from assay.adapters.embedded.state import Places
from assay.adapters.embedded.watch import Watch

_POLL_SECONDS = 0.02
# Fast; immediate (recovery at the next start); by force. With the seconds that each may take.
_STOPPING = ((signal.SIGINT, 60.0), (signal.SIGQUIT, 10.0), (signal.SIGKILL, 10.0))


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

    def stop(self, watch: Watch) -> None:
        """Stop it, politely first. A further SIGTERM to the supervisor goes on to the next, ruder way."""
        for number, patience in _STOPPING:
            if not self.lives():
                return
            signals = watch.signals
            self._send(number)
            deadline = time.monotonic() + patience
            while self.lives() and time.monotonic() < deadline and watch.signals == signals:
                watch.wait(_POLL_SECONDS)

    def _send(self, number: signal.Signals) -> None:
        send_to_server(self.pid, number)


def send_to_server(pid: int, number: signal.Signals) -> None:
    """Signal a postmaster. One that was stopped (SIGSTOP) is continued, or it would never see the signal."""
    try:
        os.kill(pid, number)
        if life_of(pid) is Life.STOPPED:
            os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        return  # it ended meanwhile, which is what the signal was for
