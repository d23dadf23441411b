"""The supervisor's own log: what it started, what ended and how, what was missing."""

from __future__ import annotations

import time

from assay.cli.up_places import Phase, ProcessState


class SupervisorLog:
    """Writes a line for each change of a process, and for each new trouble, to standard output."""

    def __init__(self) -> None:
        self._trouble = ""

    def changed(self, state: ProcessState) -> None:
        """A process has started, runs, has ended, is waited with."""
        _write(f"{state.name}: {_told(state)}")

    def missing(self, trouble: str) -> None:
        """Why something of the database or the broker is not there; empty where all is."""
        if trouble != self._trouble:
            self._trouble = trouble
            _write(f"trouble: {trouble}" if trouble else "trouble is over")

    @staticmethod
    def note(words: str) -> None:
        """Something of the supervisor's own."""
        _write(words)


def _told(state: ProcessState) -> str:
    again = f", restart {state.restarts}" if state.restarts else ""
    match state.phase:
        case Phase.STARTING:
            return f"started (pid {state.pid}{again})"
        case Phase.RUNNING:
            return f"runs (pid {state.pid}{again})"
        case Phase.WAITING if state.code is not None:
            how = f"killed by signal {-state.code}" if state.code < 0 else f"ended with {state.code}"
            return f"{how}, is started again"
        case Phase.WAITING:
            return "ended, is started again"
    return "was killed" if state.phase is Phase.KILLED else "ended"


def _write(words: str) -> None:
    print(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {words}", flush=True)
