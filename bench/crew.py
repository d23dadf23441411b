"""Processes of different kinds that work together: workers, and whoever knows when all is done.

Each is a `bench.child`. After the word to go, the one that sees the last event acknowledged says so, all are
told to stop, and each answers with its figures.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from bench.children import GO, READY, ChildFailed, Figures, Spec

DONE: Final = "done"
STOP: Final = "stop"
_LOOK_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class Role:
    """`name` of what it is, `kind` of the child, and what the child is told."""

    name: str
    kind: str
    spec: Spec


@dataclass(slots=True)
class _Member:
    role: Role
    process: subprocess.Popen[str]

    def say(self, line: str) -> None:
        if self.process.stdin is not None and self.process.poll() is None:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()

    def heard(self) -> str:
        return self.process.stdout.readline().strip() if self.process.stdout is not None else ""

    def has_spoken(self, seconds: float) -> bool:
        """Whether it says something, or ends, within that time."""
        output = self.process.stdout
        return output is None or bool(select.select([output], [], [], seconds)[0])

    def expect(self, word: str) -> None:
        if self.heard() != word:
            raise ChildFailed(f"{self.role.name} did not say “{word}”: it ended, or took too long")


class Crew:
    """Its members are ready; the last one is the one that says when all is done."""

    def __init__(self, members: Sequence[_Member]) -> None:
        self._members = members

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes of all members."""
        return tuple(member.process.pid for member in self._members)

    def go(self) -> float:
        """Say the word; the moment, on the clock that all processes of the machine share."""
        begun = time.perf_counter()
        for member in self._members:
            member.say(GO)
        return begun

    def wait(self) -> None:
        """Until the last event is acknowledged; raises when a member ends before."""
        last = self._members[-1]
        while not last.has_spoken(_LOOK_SECONDS):
            for member in self._members:
                if member.process.poll() is not None:
                    raise ChildFailed(f"{member.role.name} ended before all was done")
        last.expect(DONE)

    def stop(self) -> list[tuple[str, Figures]]:
        """End all; the answers by name of the role."""
        for member in self._members:
            member.say(STOP)
        answers: list[tuple[str, Figures]] = []
        for member in self._members:
            answers.append((member.role.name, json.loads(member.heard() or "{}")))
            if member.process.wait() != 0:
                raise ChildFailed(f"{member.role.name} ended with status {member.process.returncode}")
        return answers


@contextmanager
def crew(roles: Sequence[Role], patience: float) -> Iterator[Crew]:
    """Start one process per role and wait until all are ready. After `patience` seconds all are killed."""
    environment = {**os.environ, "ASSAY_ONLY_LOOPBACK": "1"}
    with ExitStack() as stack:
        members: list[_Member] = []
        for role in roles:
            process = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", "bench.child", role.kind], text=True, env=environment,
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                )
            )  # fmt: skip
            members.append(_Member(role, process))
            members[-1].say(json.dumps(role.spec))
        stack.callback(_end, members)
        timer = threading.Timer(patience, _end, (members,))
        stack.callback(timer.cancel)
        timer.daemon = True
        timer.start()
        for member in members:
            member.expect(READY)
        yield Crew(members)


def _end(members: Sequence[_Member]) -> None:
    for member in members:
        if member.process.poll() is None:
            member.process.kill()


# --- in the child -----------------------------------------------------------------------------------------


def told_to_stop() -> None:
    """Wait for the word to stop; the end of the input is one too."""
    sys.stdin.readline()


def say_done() -> None:
    """Tell that the last event is acknowledged."""
    print(DONE, flush=True)


def finish(wait: Callable[[], None]) -> None:
    """The end of a member that knows when all is done."""
    wait()
    say_done()
    told_to_stop()
