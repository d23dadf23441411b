"""Resident memory of a process while it works, read from /proc."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(slots=True)
class Watched:
    """How a process ended, what it printed, seconds it took, and its resident memory at each look (MiB)."""

    code: int
    printed: str
    told: str
    seconds: float
    samples: list[float] = field(repr=False)

    @property
    def plateau(self) -> float:
        """The most in the second quarter of the time: imports are over, buffers are full."""
        count = len(self.samples)
        return max(self.samples[count // 4 : count // 2])

    @property
    def end(self) -> float:
        """The most in the last quarter of the time."""
        return max(self.samples[3 * len(self.samples) // 4 :])


def resident_mib(pid: int) -> float | None:
    """None once the process is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text("ascii")
    except (FileNotFoundError, ProcessLookupError):
        return None
    for line in status.splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return None


def watch(process: subprocess.Popen[str], *, every: float, timeout: float) -> Watched:
    """Look at the process until it ends. It must not print more than a pipe holds."""
    began = time.monotonic()
    samples: list[float] = []
    while process.poll() is None:
        assert time.monotonic() - began < timeout
        found = resident_mib(process.pid)
        if found is not None:
            samples.append(found)
        try:
            process.wait(every)
        except subprocess.TimeoutExpired:
            continue
    printed, told = process.communicate()
    return Watched(process.returncode, printed, told, time.monotonic() - began, samples)
