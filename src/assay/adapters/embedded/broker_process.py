"""A running broker as its supervisor sees it. It dies with its supervisor: what it holds is gone anyway."""

from __future__ import annotations

import ctypes
import os
import secrets
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from assay.adapters.embedded.broker_places import BrokerLife, BrokerPlaces, read_life, write_life
from assay.adapters.embedded.broker_probe import BrokerAnswer, ask_broker
from assay.adapters.embedded.broker_settings import BrokerOrder, broker_command, broker_environment
from assay.adapters.embedded.launch import any_free_port, is_free
from assay.adapters.embedded.locks import FileLock
from assay.adapters.embedded.log import last_words, length, open_log
from assay.adapters.embedded.processes import Identity, Life, life_of
from assay.adapters.embedded.watch import Watch
from assay.domain.failures import AssayError

_POLL_SECONDS = 0.02
_PROBE_SECONDS = 1.0
_PORT_TRIES = 10
_TERM_SECONDS, _KILL_SECONDS = 2.0, 10.0
_PR_SET_PDEATHSIG = 1


class TiedProcess(subprocess.Popen[bytes]):
    """A program that the kernel kills when the thread that started it ends (Linux; elsewhere it lives on)."""

    def __init__(
        self, command: list[str], *, output: IO[bytes], identity: Identity | None, lock: FileLock
    ) -> None:
        starter = os.getpid()
        prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None

        def tie() -> None:
            if prctl is not None and (prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) or os.getppid() != starter):
                os._exit(1)  # the starter ended before the tie was made

        super().__init__(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=broker_environment(),
            pass_fds=(lock.fileno(),),
            cwd=Path("/"),
            start_new_session=True,
            user=None if identity is None else identity.uid,
            group=None if identity is None else identity.gid,
            extra_groups=None if identity is None else [],
            preexec_fn=tie,  # after the change of user, which would undo the tie
        )


@dataclass(frozen=True, slots=True)
class RunningBroker:
    """A broker that answered."""

    child: TiedProcess
    port: int

    def lives(self) -> bool:
        """False once it has ended and has been reaped."""
        return self.child.poll() is None

    def stop(self, watch: Watch) -> None:
        """Stop it, politely first."""
        for number, patience in ((signal.SIGTERM, _TERM_SECONDS), (signal.SIGKILL, _KILL_SECONDS)):
            self.child.send_signal(number)
            until = time.monotonic() + patience
            while self.lives() and time.monotonic() < until:
                watch.wait(_POLL_SECONDS)
            if not self.lives():
                return


def bring_up(order: BrokerOrder, places: BrokerPlaces, port: int, watch: Watch) -> RunningBroker:
    """A broker that answers, on `port` if that can be had; the port that the order names is a must.

    AssayError, with the log's last words, when it does not start.
    """
    since = length(places.log)
    with FileLock(places.server_lock) as lock:
        while not lock.try_acquire():
            end_orphan(places)
            watch.tick(_POLL_SECONDS)
        for _ in range(_PORT_TRIES):
            chosen = order.settings.port or (port if port and is_free(port) else any_free_port())
            broker = _run(order, places, chosen, lock, watch)
            if broker is not None:
                return broker
            if order.settings.port or is_free(chosen):
                break  # another port would not help
    if order.settings.port and not is_free(order.settings.port):
        raise port_taken(order.settings.port)
    raise AssayError(broker_failure(places, last_words(places.log, since) or "it ended without a word"))


def _run(
    order: BrokerOrder, places: BrokerPlaces, port: int, lock: FileLock, watch: Watch
) -> RunningBroker | None:
    """Start the program and wait until it answers; None when it ended instead."""
    cluster_id = f"assay-{secrets.token_hex(8)}"
    with open_log(places) as log:
        command = broker_command(order.program.path, port, cluster_id)
        child = TiedProcess(command, output=log, identity=order.identity, lock=lock)
    broker = RunningBroker(child, port)
    deadline = time.monotonic() + order.settings.connect_timeout
    try:
        write_life(places, BrokerLife(child.pid, port, cluster_id))
        while broker.lives():
            if time.monotonic() > deadline:
                raise AssayError(broker_failure(places, "it does not answer"))
            if ask_broker(port, cluster_id, _PROBE_SECONDS) is BrokerAnswer.OURS:
                return broker
            watch.tick(_POLL_SECONDS)
    except BaseException:
        broker.stop(watch)
        raise
    return None


def end_orphan(places: BrokerPlaces) -> None:
    """Kill a broker that outlived its supervisor. No supervisor lives but ours, if we are one."""
    life = read_life(places)
    if life is None or life_of(life.pid) not in {Life.ALIVE, Life.STOPPED}:
        return
    try:
        if _is_broker(life):
            os.kill(life.pid, signal.SIGKILL)
    except (FileNotFoundError, ProcessLookupError):
        return  # it ended meanwhile, which is what the signal was for


def _is_broker(life: BrokerLife) -> bool:
    """The process number may belong to another program by now; only a broker answers with this cluster id."""
    if Path("/proc/self/cmdline").exists():
        return life.cluster_id.encode() in Path(f"/proc/{life.pid}/cmdline").read_bytes()
    return ask_broker(life.port, life.cluster_id, _PROBE_SECONDS) is BrokerAnswer.OURS


def port_taken(port: int) -> AssayError:
    """What to say about a port that another program uses."""
    return AssayError(
        f"Port {port} of 127.0.0.1 is taken: end the program that uses it, or choose another port for the "
        "embedded broker."
    )


def broker_failure(places: BrokerPlaces, words: str) -> str:
    """One sentence about a broker that did not start; `words` are its log's last."""
    return (
        f"The embedded broker could not start ({words.rstrip('.')}): mend that, see {places.log.absolute()}, "
        "or set ASSAY_KAFKA_BROKERS to brokers of your own."
    )
