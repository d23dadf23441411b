"""The process that keeps what `assay up` started, until `assay down` or a signal ends it.

Internal: `python -m assay.cli.up_supervisor FOLDER`. Killing it leaves the others running, with the database
and the broker; the next `assay up` brings a new one, which adopts them.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Final

from assay.adapters.embedded.locks import FileLock
from assay.adapters.embedded.log import bound
from assay.cli.up_log import SupervisorLog
from assay.cli.up_places import Phase, Plan, ProcessState, UpPlaces, UpState, read_plan, write_state
from assay.cli.up_servers import Servers
from assay.cli.up_supervised import END_SECONDS, Supervised, end_all
from assay.config import load_settings
from assay.domain.failures import AssayError

_TICK_SECONDS: Final = 0.2
_LOG_BYTES: Final = 1_000_000


@dataclass(slots=True)
class Supervisor:
    """One life of a supervisor. `told` hears of every change of a process, `missing` of what keeps database
    or broker away, again and again."""

    places: UpPlaces
    plan: Plan
    servers: Servers
    told: Callable[[ProcessState], None] = lambda state: None
    looked: Callable[[], None] = lambda: None
    missing: Callable[[str], None] = lambda trouble: None
    asked: threading.Event = field(default_factory=threading.Event)
    _last: UpState = field(default_factory=UpState)

    def run(self) -> int:
        """Supervise until asked to end; the exit status. The supervisor lock is held."""
        self.places.stop_request.unlink(missing_ok=True)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        processes = [Supervised(self.places, self.plan, order) for order in self.plan.orders]
        try:
            self.servers.hold()
        except AssayError as error:
            self._note(processes, trouble=str(error))
            return 1
        lives = self.servers.broker_lives
        while not self._asked_to_end():
            self.servers.tick()
            if self.servers.broker_lives != lives:
                lives = self.servers.broker_lives
                for each in processes:
                    each.broker_is_back()
            self._tend(processes)
            self._note(processes, trouble=self.servers.trouble)
            self.looked()
            self.asked.wait(_TICK_SECONDS)
        end_all(processes, END_SECONDS, self.told)
        self.servers.release()
        self._note(processes)
        return 0

    def _tend(self, processes: Sequence[Supervised]) -> None:
        """Look at each, in order; what others need must answer before they are started."""
        for each in processes:
            before = each.state
            each.tick()
            if each.state != before:
                self.told(each.state)
            if each.state.phase is Phase.STARTING and not each.answers():
                return

    def _asked_to_end(self) -> bool:
        """Asked by a signal or by `down`; or the folder is gone, and nothing may be written into it."""
        return self.asked.is_set() or self.places.stop_request.exists() or not self.places.plan.exists()

    def _note(self, processes: Sequence[Supervised], trouble: str = "") -> None:
        self.missing(trouble)
        states = tuple(each.state for each in processes)
        ready = all(
            each.phase is not Phase.STARTING and (each.pid or each.code is not None) for each in states
        )
        state = UpState(os.getpid(), ready, self.servers.bootstrap, trouble, states)
        if state != self._last and self.places.plan.exists():
            write_state(self.places, state)
            bound(self.places.log("supervisor"), _LOG_BYTES)
            self._last = state

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.asked.set()


def main(arguments: Sequence[str]) -> int:
    """Take the supervisor lock and supervise; 0 at once where another one lives."""
    os.umask(0o077)
    places = UpPlaces(Path(arguments[0]))
    lock = FileLock(places.supervisor_lock)
    plan = read_plan(places)
    if plan is None or not lock.acquire(timeout=1.0):
        return 0
    log = SupervisorLog()
    log.note(f"supervisor of {plan.name} begins (pid {os.getpid()})")
    servers = Servers(load_settings(), plan)
    code = Supervisor(places, plan, servers, told=log.changed, missing=log.missing).run()
    log.note(f"supervisor ends with {code}")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
