"""The process that keeps one embedded server: starts or adopts it, and stops it when nobody uses it.

Internal: `python -m assay.adapters.embedded.supervisor ORDER` with an `Order` as JSON. It detaches from its
starter. Killing it leaves PostgreSQL running; the next lease brings a new supervisor, which adopts it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from assay.adapters.embedded.launch import Launch
from assay.adapters.embedded.locks import FileLock, held_at_all
from assay.adapters.embedded.log import failure_sentence
from assay.adapters.embedded.order import Order
from assay.adapters.embedded.state import Phase, Places, ServerState, read_state, write_state
from assay.adapters.embedded.supervision import Restarts, until_it_ends
from assay.adapters.embedded.watch import StopAsked, Watch, folder_gone
from assay.domain.failures import AssayError


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
        self._restarts = Restarts()

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
            until_it_ends(
                server, self._places, self._watch, idle_grace=self._order.settings.idle_grace,
                log_bytes=self._order.settings.log_bytes,
            )  # fmt: skip
        except StopAsked:
            self._note(Phase.STOPPING, server.port)
            server.stop(self._watch, rudely=folder_gone(self._places))
            raise
        if not held_at_all(self._places.clients_lock):
            return False
        self._note(Phase.STARTING, server.port)
        if words := self._restarts.one_more():
            raise AssayError(failure_sentence(self._places, words))
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
