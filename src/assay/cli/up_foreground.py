"""`assay up --foreground`: the supervisor in this terminal, with the logs of all processes."""

from __future__ import annotations

import os
from typing import Final

import typer

from assay.adapters.embedded.locks import FileLock
from assay.adapters.embedded.log import length
from assay.cli.said import say
from assay.cli.up_places import Phase, Plan, ProcessState, UpPlaces
from assay.cli.up_servers import Servers
from assay.cli.up_supervisor import Supervisor
from assay.config import Settings
from assay.domain.failures import AssayError

_MOST_BYTES: Final = 1 << 16


def supervise_here(places: UpPlaces, plan: Plan, settings: Settings, start_lock: FileLock) -> int:
    """Supervise until Ctrl-C, SIGTERM or `assay down`; the exit status."""
    os.environ.setdefault("ASSAY_LOG", "human")
    lock = FileLock(places.supervisor_lock)
    if not lock.acquire(timeout=1.0):
        raise AssayError("Another `assay up` is at work here: try again later.")
    start_lock.release()
    logs = _Logs(places, plan)
    records, events, _ = plan.topics
    say(f"{plan.name}: produce to {records}, read from {events}; Ctrl-C ends all.")
    supervisor = Supervisor(places, plan, Servers(settings, plan, say), told=_tell, looked=logs.show)
    with lock:
        code = supervisor.run()
    logs.show()
    return code


def _tell(state: ProcessState) -> None:
    match state.phase:
        case Phase.WAITING if state.code is not None:
            say(f"{state.name} ended ({state.code}); it is started again.")
        case Phase.ENDED | Phase.KILLED:
            say(f"{state.name} {'was killed' if state.phase is Phase.KILLED else 'ended'}.")
        case _:
            say(f"{state.name}: {state.phase.value} (pid {state.pid})")


class _Logs:
    """What was added to the logs since the last look, each line under its process's name."""

    def __init__(self, places: UpPlaces, plan: Plan) -> None:
        self._logs = {order.name: places.log(order.name) for order in plan.orders}
        self._seen = {name: length(log) for name, log in self._logs.items()}

    def show(self) -> None:
        """Show what is new, whole lines only."""
        for name, log in self._logs.items():
            size = length(log)
            if size < self._seen[name]:
                self._seen[name] = 0  # the log was moved away
            if size == self._seen[name]:
                continue
            with log.open("rb") as file:
                file.seek(self._seen[name])
                new = file.read(_MOST_BYTES)
            whole = new[: new.rfind(b"\n") + 1] if len(new) < _MOST_BYTES else new
            self._seen[name] += len(whole)
            for line in whole.decode("utf-8", "replace").splitlines():
                typer.echo(f"{name:<10}| {line}", err=True)
