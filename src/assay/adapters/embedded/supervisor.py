"""The process that keeps one embedded server: starts or adopts it, and stops it when nobody uses it.

Internal: `python -m assay.adapters.embedded.supervisor ORDER` with an `Order` as JSON. It detaches from its
starter. Killing it leaves PostgreSQL running; the next lease brings a new supervisor, which adopts it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from assay.adapters.embedded.launch import Launch
from assay.adapters.embedded.locks import FileLock, held_at_all
from assay.adapters.embedded.log import bound, failure_sentence
from assay.adapters.embedded.order import Order
from assay.adapters.embedded.running import RunningServer
from assay.adapters.embedded.state import Phase, Places, ServerState, read_state, write_state
from assay.adapters.embedded.watch import StopAsked, Watch, folder_gone
from assay.domain.failures import AssayError

_LONGEST_TICK = 0.5
_RESTARTS, _WITHIN_SECONDS = 3, 60.0


class Supervisor:
    """One life of a supervisor.

    The working directory is the state folder and all paths are relative to it, so that a folder that is
    moved or removed under us is never confused with a new one at the same path.
    """

    def __init__(self, order: Order, places: Places, state: ServerState) -> None:
        self._order = order
        self._places = places
        self._state = state
        self._watch = Watch(places)
        self._launch = Launch(order, places, self._note, self._watch)
        self._restarts: list[float] = []

    def run(self) -> int:
        """Supervise until the server has stopped; the exit status."""
        self._note(Phase.STARTING, self._state.port)
        try:
            while self._serve():
                pass
        except StopAsked:
            self._note(Phase.STOPPED, self._state.port)
            return 0
        except AssayError as error:
            self._note(Phase.FAILED, self._state.port, str(error))
            return 1
        except OSError as error:
            self._note(Phase.FAILED, self._state.port, failure_sentence(self._places, str(error)))
            return 1
        self._note(Phase.STOPPED, self._state.port)
        return 0

    def _serve(self) -> bool:
        """Bring a server up and see it to its end; True when it must be brought up again."""
        server = self._launch.bring_up(self._state.port)
        self._note(Phase.READY, server.port)
        try:
            self._until_it_ends(server)
        except StopAsked:
            self._note(Phase.STOPPING, server.port)
            server.stop(self._watch, rudely=folder_gone(self._places))
            raise
        if not held_at_all(self._places.clients_lock):
            return False
        self._note(Phase.STARTING, server.port)
        now = time.monotonic()
        self._restarts = [then for then in self._restarts if now - then < _WITHIN_SECONDS]
        if len(self._restarts) == _RESTARTS:
            words = f"it ended {_RESTARTS + 1} times within {_WITHIN_SECONDS:.0f} seconds"
            raise AssayError(failure_sentence(self._places, words))
        self._restarts.append(now)
        return True

    def _until_it_ends(self, server: RunningServer) -> None:
        """Return when the server ended by itself; StopAsked when it is to, or nobody uses it any more."""
        grace = self._order.settings.idle_grace
        tick = min(_LONGEST_TICK, max(grace / 4, 0.02))
        used = time.monotonic()
        while server.lives():
            self._watch.tick(tick)
            bound(self._places.log, self._order.settings.log_bytes)
            if held_at_all(self._places.clients_lock):
                used = time.monotonic()
            elif time.monotonic() - used >= grace and self._nobody_comes():
                raise StopAsked

    def _nobody_comes(self) -> bool:
        """Take the start lock and keep it until we exit, so that who arrives now waits for our end."""
        lock = FileLock(self._places.start_lock)
        if not lock.try_acquire():
            return False
        if held_at_all(self._places.clients_lock):
            lock.release()
            return False
        return True

    def _note(self, phase: Phase, port: int, message: str = "") -> None:
        self._state = replace(self._state, phase=phase, port=port, message=message)
        if not folder_gone(self._places):
            write_state(self._places, self._state)


def main(arguments: Sequence[str]) -> int:
    """Take the supervisor lock, detach, supervise. Returns at once in the process that was started."""
    order = Order.from_argument(arguments[0])
    os.umask(0o077)
    os.chdir(order.folder)
    places = Places(Path())
    lock = FileLock(places.supervisor_lock)
    if not lock.acquire(timeout=1.0):
        return 0  # another one lives
    places.stop_request.unlink(missing_ok=True)
    state = ServerState(
        phase=Phase.STARTING,
        run=order.run,
        port=read_state(places).port,
        version=order.binaries.version,
    )
    write_state(places, state)
    if os.fork():  # the starter reaps us now; the child keeps the lock through the shared descriptor
        os._exit(0)
    return Supervisor(order, places, replace(state, supervisor_pid=os.getpid())).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
