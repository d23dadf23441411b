"""The process that keeps one embedded broker: starts it, and stops it when nobody uses it.

Internal: `python -m assay.adapters.embedded.broker_supervisor ORDER` with a `BrokerOrder` as JSON. It
detaches from its starter. Killing it kills the broker; the next lease brings both again, empty.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from assay.adapters.embedded.broker_places import BrokerPlaces
from assay.adapters.embedded.broker_process import RunningBroker, bring_up, broker_failure
from assay.adapters.embedded.broker_settings import BrokerOrder
from assay.adapters.embedded.locks import FileLock, held_at_all
from assay.adapters.embedded.log import bound
from assay.adapters.embedded.state import Phase, ServerState, read_state, write_state
from assay.adapters.embedded.watch import StopAsked, Watch, folder_gone
from assay.domain.failures import AssayError

_LONGEST_TICK = 0.5
_RESTARTS, _WITHIN_SECONDS = 3, 60.0


class BrokerSupervisor:
    """One life of a supervisor. Its working directory is the state folder, as with the database's."""

    def __init__(self, order: BrokerOrder, places: BrokerPlaces, state: ServerState) -> None:
        self._order = order
        self._places = places
        self._state = state
        self._watch = Watch(places)
        self._restarts: list[float] = []

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
            self._until_it_ends(broker)
        except StopAsked:
            self._note(Phase.STOPPING)
            broker.stop(self._watch)
            raise
        if not held_at_all(self._places.clients_lock):
            return False
        now = time.monotonic()
        self._restarts = [then for then in self._restarts if now - then < _WITHIN_SECONDS]
        if len(self._restarts) == _RESTARTS:
            words = f"it ended {_RESTARTS + 1} times within {_WITHIN_SECONDS:.0f} seconds"
            raise AssayError(broker_failure(self._places, words))
        self._restarts.append(now)
        return True

    def _until_it_ends(self, broker: RunningBroker) -> None:
        """Return when the broker ended by itself; StopAsked when it is to, or nobody uses it any more."""
        grace = self._order.settings.idle_grace
        tick = min(_LONGEST_TICK, max(grace / 4, 0.02))
        used = time.monotonic()
        while broker.lives():
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
