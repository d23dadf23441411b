"""Bringing a server up from the supervisor's side: set up, start, or adopt."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

from assay.adapters.embedded.cluster import check_version, clear_stale_pid_file, create_cluster
from assay.adapters.embedded.leftovers import end_leftovers
from assay.adapters.embedded.locks import FileLock
from assay.adapters.embedded.log import failure_sentence, last_words, length, open_log
from assay.adapters.embedded.order import Order
from assay.adapters.embedded.postmaster import living_postmaster, read_postmaster
from assay.adapters.embedded.processes import CleanProcess, server_environment
from assay.adapters.embedded.running import RunningServer
from assay.adapters.embedded.settings import server_command
from assay.adapters.embedded.state import Phase, Places
from assay.adapters.embedded.watch import Watch
from assay.domain.failures import AssayError

_POLL_SECONDS = 0.02
_PORT_TRIES = 10
_LEFTOVER_SECONDS = 2.0

Note = Callable[[Phase, int], None]


class Launch:
    """Brings one server up. `note` publishes phase and port; `watch` says when to give up."""

    def __init__(self, order: Order, places: Places, note: Note, watch: Watch) -> None:
        self._order = order
        self._places = places
        self._note = note
        self._watch = watch

    def bring_up(self, port: int) -> RunningServer:
        """The server, on `port` if that can be had (0: any). A running one is adopted.

        What a killed predecessor left behind, half-way through `initdb` or with backends that still use the
        shared memory, is waited for. AssayError, with the log's last words, when it does not start.
        """
        with FileLock(self._places.server_lock) as lock:
            found = self._lock_or_adopt(lock)
            if found is not None:
                return found
            if not self._places.data.is_dir():
                self._set_up(lock, port)
            check_version(self._places.data, self._order.binaries)
            clear_stale_pid_file(self._places.data)
            return self._start(lock, port)

    def _lock_or_adopt(self, lock: FileLock) -> RunningServer | None:
        orphaned = time.monotonic()
        while not lock.try_acquire():
            found = living_postmaster(self._places.data)
            if found is not None:
                orphaned = time.monotonic()
                if found.status in {"ready", "standby"}:
                    return RunningServer(self._places, found.pid, found.port, None)
            elif time.monotonic() - orphaned > _LEFTOVER_SECONDS:
                end_leftovers(self._places.data)
                orphaned = time.monotonic()
            self._watch.tick(_POLL_SECONDS)
        return None

    def _set_up(self, lock: FileLock, port: int) -> None:
        self._note(Phase.SETTING_UP, port)
        since = length(self._places.log)
        order = self._order
        status = create_cluster(
            self._places, order.binaries, order.identity, lock, lambda: self._watch.tick(_POLL_SECONDS)
        )
        if status != 0:
            raise self._failure(since, f"initdb ended with status {status}")

    def _start(self, lock: FileLock, port: int) -> RunningServer:
        since = length(self._places.log)
        for _ in range(_PORT_TRIES):
            port = port if port and is_free(port) else any_free_port()
            self._note(Phase.STARTING, port)
            server = self._run(lock, port)
            if server.lives():
                return server
            if is_free(port):
                break  # it did not end for want of a port
        raise self._failure(since, "PostgreSQL ended without a word")

    def _run(self, lock: FileLock, port: int) -> RunningServer:
        """Start `postgres` and wait for it to be ready or to end; recovery may take long and is let."""
        order, places = self._order, self._places
        data = str(places.data.absolute())
        with open_log(places) as log:
            child = CleanProcess(
                server_command(str(order.binaries.postgres), data, port, order.settings),
                environment=server_environment(),
                output=log,
                identity=order.identity,
                keep=(lock.fileno(),),
            )
        server = RunningServer(places, child.pid, port, child)
        try:
            while server.lives() and not _is_ready(places, child.pid):
                self._watch.tick(_POLL_SECONDS)
        except BaseException:
            server.stop(self._watch)
            raise
        return server

    def _failure(self, since: int, otherwise: str) -> AssayError:
        return AssayError(failure_sentence(self._places, last_words(self._places.log, since) or otherwise))


def _is_ready(places: Places, pid: int) -> bool:
    found = read_postmaster(places.data)
    return found is not None and found.pid == pid and found.status == "ready"


def is_free(port: int) -> bool:
    """Whether PostgreSQL could listen on this port of 127.0.0.1 now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as PostgreSQL itself binds
        try:
            probe.bind(("127.0.0.1", port))
            probe.listen(1)
        except OSError:
            return False
    return True


def any_free_port() -> int:
    """A port of 127.0.0.1 that was free a moment ago."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
