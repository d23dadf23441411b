"""The embedded PostgreSQL of a project: a lease on it, its status, its end."""

from __future__ import annotations

import errno
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from assay.adapters.embedded.home import find_places, make_places
from assay.adapters.embedded.leftovers import end_leftovers
from assay.adapters.embedded.locks import POLL_SECONDS, FileLock, held_at_all, held_exclusively
from assay.adapters.embedded.postmaster import living_postmaster
from assay.adapters.embedded.running import RunningServer
from assay.adapters.embedded.settings import ServerSettings
from assay.adapters.embedded.starting import Progress, Startup
from assay.adapters.embedded.state import Phase, Places, read_state
from assay.domain.failures import AssayError, ConfigurationError

_SAY_WAITING_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """What is known without connecting. `running`: a PostgreSQL of this project lives.

    `clients_held`: somebody, here or in another process, holds a lease. Paths and version are None before
    the first start.
    """

    running: bool
    phase: Phase
    pid: int | None = None
    port: int | None = None
    version: str | None = None
    data_dir: Path | None = None
    log: Path | None = None
    clients_held: bool = False
    supervisor_pid: int | None = None


class Lease:
    """The right to a running server: while it is held, by a living process, the server does not stop."""

    def __init__(self, url: str, lock: FileLock) -> None:
        self._url = url
        self._lock = lock

    @property
    def url(self) -> str:
        """A `postgresql://` URL with the password; never log it."""
        return self._url

    def release(self) -> None:
        """Give it back. The server stops after its idle grace when no other lease is held."""
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class EmbeddedServer:
    """The PostgreSQL server of one project folder. Holding no lease, it starts nothing and keeps nothing.

    `progress` is told, in short sentences, what a slow start waits for.
    """

    def __init__(
        self, project_dir: Path, *, settings: ServerSettings | None = None, progress: Progress | None = None
    ) -> None:
        self._project = project_dir.resolve()
        self._settings = settings or ServerSettings()
        self._progress = progress or _silent
        self._said_waiting = False

    def acquire(self) -> Lease:
        """A lease on the running server, started (and set up) where it was not.

        Blocks as long as a start or a recovery makes headway. AssayError, in one sentence, when the server
        cannot be had.
        """
        if not self._project.is_dir():
            raise ConfigurationError(f"{self._project} is not a folder: name the project's folder.")
        places = make_places(self._project)
        clients = FileLock(places.clients_lock)
        with FileLock(places.start_lock) as start:
            start.acquire(while_waiting=self._while_waiting)
            clients.acquire(shared=True)
            try:
                url = Startup(places, self._settings, self._progress).wait()
            except BaseException:
                clients.release()
                raise
        return Lease(url, clients)

    def status(self) -> ServerStatus:
        """How things stand. Changes nothing."""
        places = find_places(self._project)
        if places is None:
            return ServerStatus(running=False, phase=Phase.STOPPED)
        running = held_exclusively(places.server_lock)
        supervised = held_exclusively(places.supervisor_lock)
        state = read_state(places)
        found = living_postmaster(places.data) if running else None
        phase = state.phase
        if not running and not supervised and phase is not Phase.FAILED:
            phase = Phase.STOPPED
        return ServerStatus(
            running=found is not None,
            phase=phase,
            pid=found.pid if found else None,
            port=found.port if found else None,
            version=state.version or None,
            data_dir=places.data.absolute(),
            log=places.log.absolute(),
            clients_held=held_at_all(places.clients_lock),
            supervisor_pid=state.supervisor_pid if supervised else None,
        )

    def stop(self, timeout: float = 60.0, *, force: bool = False) -> bool:
        """Stop the server; False when it was not running.

        Refuses while a lease is held, unless `force`. AssayError when it still runs after `timeout` seconds.
        """
        places = find_places(self._project)
        if places is None:
            return False
        with FileLock(places.start_lock) as start:
            return self._stop(places, start, time.monotonic() + timeout, force)

    def remove(self, timeout: float = 60.0) -> None:
        """Stop the server, whoever uses it, and delete its data for good."""
        places = find_places(self._project)
        if places is None:
            return
        deadline = time.monotonic() + timeout
        with FileLock(places.start_lock) as start:
            self._stop(places, start, deadline, force=True)
            _delete(places.folder, deadline)

    def _stop(self, places: Places, start: FileLock, deadline: float, force: bool) -> bool:
        if not start.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise AssayError(
                "Another command is starting or stopping the embedded database: try again later."
            )
        if not _lives(places):
            return False
        if not force and held_at_all(places.clients_lock):
            raise AssayError(
                "The embedded database is in use by an assay command: end that one first, or force the stop."
            )
        until = _Until(deadline, places)
        while _lives(places):
            _stop_a_little(places, until)
            until.wait(POLL_SECONDS)
        places.stop_request.unlink(missing_ok=True)
        return True

    def _while_waiting(self, waited: float) -> None:
        if not self._said_waiting and waited > _SAY_WAITING_SECONDS:
            self._said_waiting = True
            self._progress("Waiting for another assay command that starts or stops the embedded database")


def _lives(places: Places) -> bool:
    return held_exclusively(places.supervisor_lock) or held_exclusively(places.server_lock)


def _stop_a_little(places: Places, until: _Until) -> None:
    """Leave word for the supervisor; what runs without one is stopped from here."""
    if held_exclusively(places.supervisor_lock):
        places.stop_request.touch(mode=0o600)
        return
    found = living_postmaster(places.data)
    if found is None:
        end_leftovers(places.data)
    elif held_exclusively(places.server_lock):
        RunningServer(places, found.pid, found.port, None).stop(until)


class _Until:
    """Waits in small steps up to a deadline, then raises AssayError."""

    def __init__(self, deadline: float, places: Places) -> None:
        self.signals = 0
        self._deadline = deadline
        self._places = places

    def wait(self, seconds: float) -> None:
        if time.monotonic() > self._deadline:
            log = self._places.log.absolute()
            raise AssayError(
                f"The embedded database has not stopped yet: wait a little, or see its log, {log}."
            )
        time.sleep(seconds)


def _silent(message: str) -> None:
    """Nobody listens."""


def _delete(folder: Path, deadline: float) -> None:
    """Delete a folder. A process killed a moment ago may still be writing or deleting there: then again."""
    while folder.exists():
        try:
            shutil.rmtree(folder)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.ENOENT) or time.monotonic() > deadline:
                raise
            time.sleep(POLL_SECONDS)
