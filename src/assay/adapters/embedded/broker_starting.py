"""Bringing the broker up from the client's side: find its program, start a supervisor, wait for an answer."""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Callable

from assay.adapters.embedded.account import server_identity
from assay.adapters.embedded.broker_places import BrokerLife, BrokerPlaces, read_life
from assay.adapters.embedded.broker_probe import BrokerAnswer, ask_broker
from assay.adapters.embedded.broker_process import broker_failure, port_taken
from assay.adapters.embedded.broker_program import broker_program
from assay.adapters.embedded.broker_settings import BrokerOrder, BrokerSettings
from assay.adapters.embedded.home import is_root, server_home
from assay.adapters.embedded.launch import is_free
from assay.adapters.embedded.locks import POLL_SECONDS, held_exclusively
from assay.adapters.embedded.log import last_words, length, open_log
from assay.adapters.embedded.processes import CleanProcess, Life, life_of, python_environment
from assay.adapters.embedded.state import Phase, read_state
from assay.domain.failures import AssayError, ConfigurationError

Progress = Callable[[str], None]

_SUPERVISOR = "assay.adapters.embedded.broker_supervisor"
_SUPERVISORS = 3
_STARTING = "Starting the embedded broker"


class BrokerStartup:
    """One wait for a ready broker. The start lock and a client's lock are held meanwhile."""

    def __init__(self, places: BrokerPlaces, settings: BrokerSettings, progress: Progress) -> None:
        self._places = places
        self._settings = settings
        self._progress = progress
        self._run = ""
        self._supervisors = 0
        self._log_start = length(places.log)
        self._waiting_since = time.monotonic()

    def wait(self) -> BrokerLife:
        """The broker that answers; AssayError when none does in time."""
        while True:
            if not held_exclusively(self._places.supervisor_lock):
                self._supervise()
            state = read_state(self._places)
            life = read_life(self._places)
            answer = None
            if state.phase is Phase.READY and life is not None:
                self._refuse_other_port(life)
                answer = ask_broker(life.port, life.cluster_id, self._settings.connect_timeout)
                if answer is BrokerAnswer.OURS:
                    return life
            # The supervisor gives up first, and says more.
            if time.monotonic() - self._waiting_since > 2 * self._settings.connect_timeout:
                raise self._no_answer(life, state.supervisor_pid, answer)
            time.sleep(POLL_SECONDS)

    def _supervise(self) -> None:
        """Start a supervisor; raise what the last one said when it failed."""
        state = read_state(self._places)
        if self._run and state.run == self._run and state.phase is Phase.FAILED:
            raise AssayError(state.message)
        if self._supervisors == _SUPERVISORS:
            raise self._cannot_start()
        port = self._settings.port
        if port and not held_exclusively(self._places.server_lock) and not is_free(port):
            raise ConfigurationError(str(port_taken(port)))
        self._progress(_STARTING)
        self._supervisors += 1
        self._run = secrets.token_hex(8)
        home = server_home()
        identity = server_identity(home) if is_root() and home is not None else None
        program = broker_program(identity, home)
        order = BrokerOrder(self._run, self._places.folder, program, identity, self._settings)
        with open_log(self._places) as log:
            starter = CleanProcess(
                [sys.executable, "-P", "-m", _SUPERVISOR, order.to_argument()],
                environment=python_environment(),
                output=log,
                folder=self._places.folder,
            )
        if starter.wait() != 0:
            raise self._cannot_start()
        self._waiting_since = time.monotonic()

    def _refuse_other_port(self, life: BrokerLife) -> None:
        if self._settings.port not in {0, life.port}:
            raise ConfigurationError(
                f"The embedded broker runs on port {life.port} already, not on {self._settings.port}: "
                "use that one, or stop it first."
            )

    def _no_answer(self, life: BrokerLife | None, supervisor: int, answer: BrokerAnswer | None) -> AssayError:
        for pid in (0 if life is None else life.pid, supervisor):
            if pid and life_of(pid) is Life.STOPPED:
                return AssayError(
                    f"The embedded broker does not answer because its process {pid} was stopped by a signal: "
                    f"continue it with `kill -CONT {pid}` and try again."
                )
        words = last_words(self._places.log, self._log_start) or answer or "it does not get ready"
        return AssayError(
            f"The embedded broker does not answer ({words}): try again when the machine is less busy; "
            f"its log is {self._places.log}."
        )

    def _cannot_start(self) -> AssayError:
        words = last_words(self._places.log, self._log_start)
        return AssayError(broker_failure(self._places, words or "its supervisor ended without a word"))
