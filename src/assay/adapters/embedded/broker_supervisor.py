"""The process that keeps one embedded broker: starts it, and stops it when nobody uses it.

Internal: `python -m assay.adapters.embedded.broker_supervisor ORDER` with a `BrokerOrder` as JSON. It
detaches from its starter. Killing it kills the broker; the next lease brings both again, empty.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from assay.adapters.embedded.broker_places import BrokerPlaces
from assay.adapters.embedded.broker_process import bring_up, broker_failure
from assay.adapters.embedded.broker_settings import BrokerOrder
from assay.adapters.embedded.locks import FileLock, held_at_all
from assay.adapters.embedded.state import Phase, ServerState, read_state, write_state
from assay.adapters.embedded.supervision import Restarts, until_it_ends
from assay.adapters.embedded.watch import StopAsked, Watch, folder_gone
from assay.domain.failures import AssayError


class BrokerSupervisor:
    """One life of a supervisor. Its working directory is the state folder, as with the database's."""

    def __init__(self, order: BrokerOrder, places: BrokerPlaces, state: ServerState) -> None:
        self._order = order
        self._places = places
        self._state = state
        self._watch = Watch(places)
        self._restarts = Restarts()

    def run(self) -> int:
        """Supervise until the broker has stopped; the exit status."""
        try:
            while self._serve():
                pass
        except StopAsked:
            self._note(Phase.STOPPED)
            return 0
        except (AssayError, OSError) as error:
            known = isinstance(error, AssayError)
            self._note(Phase.FAILED, str(error) if known else broker_failure(self._places, str(error)))
            return 1
        self._note(Phase.STOPPED)
        return 0

    def _serve(self) -> bool:
        """Bring a broker up and see it to its end; True when it must be brought up again."""
        self._note(Phase.STARTING)
        broker = bring_up(self._order, self._places, self._state.port, self._watch)
        self._state = replace(self._state, port=broker.port)
        self._note(Phase.READY)
        try:
            until_it_ends(
                broker, self._places, self._watch, idle_grace=self._order.settings.idle_grace,
                log_bytes=self._order.settings.log_bytes,
            )  # fmt: skip
        except StopAsked:
            self._note(Phase.STOPPING)
            broker.stop(self._watch)
            raise
        if not held_at_all(self._places.clients_lock):
            return False
        if words := self._restarts.one_more():
            raise AssayError(broker_failure(self._places, words))
        return True

    def _note(self, phase: Phase, message: str = "") -> None:
        self._state = replace(self._state, phase=phase, message=message)
        if not folder_gone(self._places):
            write_state(self._places, self._state)


def main(arguments: Sequence[str]) -> int:
    """Take the supervisor lock, detach, supervise. Returns at once in the process that was started."""
    order = BrokerOrder.from_argument(arguments[0])
    os.umask(0o077)
    os.chdir(order.folder)
    places = BrokerPlaces(Path())
    lock = FileLock(places.supervisor_lock)
    if not lock.acquire(timeout=1.0):
        return 0  # another one lives
    places.stop_request.unlink(missing_ok=True)
    last = read_state(places).port
    state = ServerState(phase=Phase.STARTING, run=order.run, port=last, version=order.program.version)
    write_state(places, state)
    if os.fork():  # the starter reaps us now; the child keeps the lock through the shared descriptor
        os._exit(0)
    return BrokerSupervisor(order, places, replace(state, supervisor_pid=os.getpid())).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
