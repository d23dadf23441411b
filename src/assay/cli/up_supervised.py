"""A process of `assay up` from outside: started, adopted, started again with growing pauses, ended."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from assay.adapters.embedded.locks import POLL_SECONDS, held_exclusively
from assay.adapters.embedded.log import bound, length
from assay.cli.errors import BAD_INPUT, STOPPED
from assay.cli.up_places import Order, Phase, Plan, ProcessState, UpPlaces

# A process that lives so long is running; one that lived so long starts anew as if it had never ended.
SETTLED_SECONDS: Final = 2.0
_SOUND_SECONDS: Final = 60.0
# A worker drains for 30 seconds at most.
END_SECONDS: Final = 45.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
_LOG_BYTES: Final = 5_000_000
_TAIL_BYTES: Final = 4096
_CONNECT_SECONDS: Final = 1.0
# A broker that has just come back settles for a while: who ends meanwhile has met it half ready.
_SETTLING_SECONDS: Final = 30.0


class Supervised:
    """One process of a plan. One that lives already, of a supervisor that was killed, is adopted."""

    def __init__(self, places: UpPlaces, plan: Plan, order: Order) -> None:
        self.order = order
        self.state = ProcessState(order.name, Phase.WAITING)
        self._places = places
        self._plan = plan
        self._process: subprocess.Popen[bytes] | None = None
        self._since = 0.0
        self._again_at = 0.0
        self._pause = _FIRST_PAUSE
        self._log_start = 0
        self._broker_until = 0.0
        if self.lives():
            self._note(Phase.RUNNING)

    def lives(self) -> bool:
        """Whether there is such a process, ours or adopted."""
        if self._process is not None and self._process.poll() is None:
            return True
        return held_exclusively(self._places.lock(self.order.name))

    def tick(self) -> None:
        """Look at it; start it where it has ended and its pause is over."""
        now = time.monotonic()
        bound(self._places.log(self.order.name), _LOG_BYTES)
        if self.lives():
            if self.state.phase is Phase.STARTING and now - self._since > SETTLED_SECONDS:
                self._note(Phase.RUNNING)
            if now - self._since > _SOUND_SECONDS:
                self._pause = _FIRST_PAUSE
        elif self.state.phase in (Phase.STARTING, Phase.RUNNING):
            self._has_ended(now)
        elif now >= self._again_at:
            self._start(now)

    def broker_is_back(self) -> None:
        """What ended for want of the broker is started now, and without long pauses for a while."""
        if self.order.broker:
            now = time.monotonic()
            self._broker_until = now + _SETTLING_SECONDS
            self._pause, self._again_at = _FIRST_PAUSE, min(self._again_at, now)

    def answers(self) -> bool:
        """Whether it is of use to others: its port answers, where it has one."""
        if not self.order.port:
            return True
        try:
            with socket.create_connection(("127.0.0.1", self.order.port), _CONNECT_SECONDS):
                return True
        except OSError:
            return False

    def send(self, number: signal.Signals) -> None:
        """Send a signal to it, if it lives."""
        pid = self._pid()
        if pid and self.lives():
            with suppress(ProcessLookupError):  # it may end by itself meanwhile
                os.kill(pid, number)

    def end(self, seconds: float) -> None:
        """SIGTERM, wait at most so long, then SIGKILL; `state` tells which."""
        phase = Phase.ENDED
        self.send(signal.SIGTERM)
        if not self._gone_within(seconds):
            phase = Phase.KILLED
            self.send(signal.SIGKILL)
            self._gone_within(_SOUND_SECONDS)
        self._note(phase, pid=0)

    def _gone_within(self, seconds: float) -> bool:
        until = time.monotonic() + seconds
        while self.lives():
            if time.monotonic() > until:
                return False
            time.sleep(POLL_SECONDS)
        return True

    def _start(self, now: float) -> None:
        name = self.order.name
        log = self._places.log(name)
        self._log_start = length(log)
        broker = "embedded" if self.order.broker and not self._plan.brokers else ""
        own = ("--brokers", self._plan.brokers) if self.order.broker and self._plan.brokers else ()
        descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "assay.cli.up_process", str(self._places.folder), name, broker,
                 *self.order.arguments, *own],
                stdin=subprocess.DEVNULL, stdout=descriptor, stderr=descriptor, start_new_session=True,
                cwd=self._plan.working_folder, env={**os.environ, "ASSAY_PROJECT": self._plan.project},
            )  # fmt: skip
        finally:
            os.close(descriptor)
        again = self.state.restarts + (self._since > 0)
        self._since = now
        self._note(Phase.STARTING, pid=self._process.pid, restarts=again)

    def _has_ended(self, now: float) -> None:
        code = None if self._process is None else self._process.returncode
        # What a person must mend first is not tried again and again in haste.
        for_a_person = code in (BAD_INPUT, STOPPED) and now > self._broker_until
        pause = _LONGEST_PAUSE if for_a_person else self._pause
        self._again_at = now + pause
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        words = last_line(self._places.log(self.order.name), self._log_start)
        self._since = self._since or now
        self._note(Phase.WAITING, pid=0, code=code, words=words)

    def _pid(self) -> int:
        if self._process is not None and self._process.poll() is None:
            return self._process.pid
        try:
            return int(self._places.pid_file(self.order.name).read_text("ascii"))
        except (FileNotFoundError, ValueError):
            return 0

    def _note(
        self, phase: Phase, *, pid: int | None = None, restarts: int | None = None, code: int | None = None,
        words: str = "",
    ) -> None:  # fmt: skip
        self.state = replace(
            self.state, phase=phase, pid=self._pid() if pid is None else pid,
            restarts=self.state.restarts if restarts is None else restarts,
            code=self.state.code if code is None else code, words=words,
        )  # fmt: skip


def end_all(supervised: list[Supervised], seconds: float, told: Callable[[ProcessState], None]) -> None:
    """End them in the order in which they depend on each other: who reads first, who answers last."""
    for each in reversed(supervised):
        if each.lives():
            each.end(seconds)
            told(each.state)


def last_line(log: Path, since: int) -> str:
    """The last line that was written after byte `since`."""
    try:
        with log.open("rb") as file:
            file.seek(max(since, length(log) - _TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
