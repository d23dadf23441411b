"""The embedded broker of a project: a Kafka-compatible one, in memory, for trying things out and for tests.

with EmbeddedBroker(project_dir).acquire() as lease:
    Producer({"bootstrap.servers": lease.bootstrap})

It is shared, supervised and stopped like the embedded PostgreSQL, but what it holds ends with it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from assay.adapters.embedded.broker_places import (
    BrokerLife,
    BrokerPlaces,
    find_broker,
    make_broker,
    read_life,
)
from assay.adapters.embedded.broker_process import end_orphan
from assay.adapters.embedded.broker_settings import BrokerSettings
from assay.adapters.embedded.broker_starting import BrokerStartup, Progress
from assay.adapters.embedded.locks import POLL_SECONDS, FileLock, held_at_all, held_exclusively
from assay.adapters.embedded.state import Phase, read_state
from assay.domain.failures import AssayError, ConfigurationError

__all__ = ["BrokerLease", "BrokerSettings", "BrokerStatus", "EmbeddedBroker"]

_SAY_WAITING_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """What is known without connecting. `running`: a broker of this project lives.

    `cluster_id` names this life of the broker: another one means that what it held is gone. `clients_held`:
    somebody, here or in another process, holds a lease.
    """

    running: bool
    phase: Phase
    pid: int | None = None
    port: int | None = None
    cluster_id: str | None = None
    version: str | None = None
    log: Path | None = None
    clients_held: bool = False
    supervisor_pid: int | None = None


class BrokerLease:
    """The right to a running broker: while it is held, by a living process, the broker does not stop."""

    def __init__(self, life: BrokerLife, lock: FileLock) -> None:
        self._life = life
        self._lock = lock

    @property
    def bootstrap(self) -> str:
        """`127.0.0.1:PORT`, for `bootstrap.servers`. The port stays when a killed broker is started again."""
        return f"127.0.0.1:{self._life.port}"

    @property
    def cluster_id(self) -> str:
        """The life of the broker that this lease was given in."""
        return self._life.cluster_id

    def release(self) -> None:
        """Give it back. The broker stops after its idle grace when no other lease is held."""
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class EmbeddedBroker:
    """The broker of one project folder. Holding no lease, it starts nothing and keeps nothing.

    `progress` is told, in short sentences, what a slow start waits for.
    """

    def __init__(
        self, project_dir: Path, *, settings: BrokerSettings | None = None, progress: Progress | None = None
    ) -> None:
        self._project = project_dir.resolve()
        self._settings = settings or BrokerSettings()
        self._progress = progress or _silent
        self._said_waiting = False

    def acquire(self) -> BrokerLease:
        """A lease on the running broker, started where it was not; it has answered a metadata request.

        ConfigurationError when its program is not installed or the port asked for is taken; AssayError, in
        one sentence, when it cannot be had for another reason.
        """
        if not self._project.is_dir():
            raise ConfigurationError(f"{self._project} is not a folder: name the project's folder.")
        places = make_broker(self._project)
        clients = FileLock(places.clients_lock)
        with FileLock(places.start_lock) as start:
            start.acquire(while_waiting=self._while_waiting)
            clients.acquire(shared=True)
            try:
                life = BrokerStartup(places, self._settings, self._progress).wait()
            except BaseException:
                clients.release()
                raise
        return BrokerLease(life, clients)

    def status(self) -> BrokerStatus:
        """How things stand. Changes nothing."""
        places = find_broker(self._project)
        if places is None:
            return BrokerStatus(running=False, phase=Phase.STOPPED)
        running = held_exclusively(places.server_lock)
        supervised = held_exclusively(places.supervisor_lock)
        state = read_state(places)
        life = read_life(places) if running else None
        phase = state.phase
        if not running and not supervised and phase is not Phase.FAILED:
            phase = Phase.STOPPED
        return BrokerStatus(
            running=life is not None,
            phase=phase,
            pid=life.pid if life else None,
            port=life.port if life else None,
            cluster_id=life.cluster_id if life else None,
            version=state.version or None,
            log=places.log.absolute(),
            clients_held=held_at_all(places.clients_lock),
            supervisor_pid=state.supervisor_pid if supervised else None,
        )

    def stop(self, timeout: float = 30.0, *, force: bool = False) -> bool:
        """Stop the broker, and lose what it holds; False when it was not running.

        Refuses while a lease is held, unless `force`. AssayError when it still runs after `timeout` seconds.
        """
        places = find_broker(self._project)
        if places is None:
            return False
        deadline = time.monotonic() + timeout
        with FileLock(places.start_lock) as start:
            if not start.acquire(timeout=timeout):
                raise AssayError(
                    "Another command is starting or stopping the embedded broker: try again later."
                )
            if not _lives(places):
                return False
            if not force and held_at_all(places.clients_lock):
                raise AssayError(
                    "The embedded broker is in use by an assay command: end that one first, or force it."
                )
            _stop(places, deadline)
        return True

    def _while_waiting(self, waited: float) -> None:
        if not self._said_waiting and waited > _SAY_WAITING_SECONDS:
            self._said_waiting = True
            self._progress("Waiting for another assay command that starts or stops the embedded broker")


def _lives(places: BrokerPlaces) -> bool:
    return held_exclusively(places.supervisor_lock) or held_exclusively(places.server_lock)


def _stop(places: BrokerPlaces, deadline: float) -> None:
    """Leave word for the supervisor; what runs without one is ended from here."""
    while _lives(places):
        if time.monotonic() > deadline:
            raise AssayError(
                f"The embedded broker has not stopped yet: wait a little, or see its log, {places.log}."
            )
        if held_exclusively(places.supervisor_lock):
            places.stop_request.touch(mode=0o600)
        else:
            end_orphan(places)
        time.sleep(POLL_SECONDS)
    places.stop_request.unlink(missing_ok=True)


def _silent(message: str) -> None:
    """Nobody listens."""
