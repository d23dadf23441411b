"""Every measured client is a process of its own: its CPU time and memory are then its alone.

A child reads what to do from its standard input, gets ready, says so, waits for the word to go, and answers
with one line of JSON. Several of them start together.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from bench.processes import Meter, Usage

READY: Final = "ready"
GO: Final = "go"

Spec = Mapping[str, str | int | float | bool | None]
Figures = dict[str, float]


class ChildFailed(Exception):
    """A measured process ended without an answer; its own words stand above on standard error."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The answers of the children that ran together, and what was used up to the last of them."""

    answers: list[Figures]
    usage: Usage

    def total(self, name: str) -> float:
        """A figure summed over the children."""
        return sum(answer.get(name, 0.0) for answer in self.answers)

    def largest(self, name: str) -> float:
        """The largest of a figure."""
        return max(answer.get(name, 0.0) for answer in self.answers)


def run_children(
    kind: str, specs: Sequence[Spec], server: int, others: tuple[int, ...] = (),
    meanwhile: Callable[[], None] | None = None,
) -> Measured:  # fmt: skip
    """Run one child per spec, all at once, and measure from the word to go to the last answer."""
    environment = {**os.environ, "ASSAY_ONLY_LOOPBACK": "1"}
    with ExitStack() as stack:
        processes = []
        for spec in specs:
            process = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", "bench.child", kind], text=True, env=environment,
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                )
            )  # fmt: skip
            stack.callback(_end, process)
            processes.append(process)
            _say(process, json.dumps(spec))
        for process in processes:
            if _heard(process) != READY:
                raise ChildFailed(f"{kind} did not get ready")
        meter = Meter(server, others)
        begun = time.perf_counter()
        for process in processes:
            _say(process, GO)
        if meanwhile is not None:
            meanwhile()
        answers: list[Figures] = [json.loads(_heard(process) or "{}") for process in processes]
        wall = time.perf_counter() - begun
        for process in processes:
            if process.wait() != 0:
                raise ChildFailed(f"{kind} ended with status {process.returncode}")
        usage = meter.stop()
    return Measured(answers, Usage(wall, usage.server_cpu, usage.foreign))


def _say(process: subprocess.Popen[str], line: str) -> None:
    if process.stdin is not None and process.poll() is None:
        process.stdin.write(line + "\n")
        process.stdin.flush()


def _heard(process: subprocess.Popen[str]) -> str:
    return process.stdout.readline().strip() if process.stdout is not None else ""


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.kill()
