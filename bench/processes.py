"""CPU time of processes and of the whole machine, read from /proc."""

from __future__ import annotations

import os
import resource
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

TICK: Final = 1.0 / os.sysconf("SC_CLK_TCK")
# Fields of /proc/PID/stat after the command's closing bracket.
_PARENT, _UTIME, _STIME, _CUTIME, _CSTIME = 1, 11, 12, 13, 14


class Ticks(NamedTuple):
    """CPU seconds of a process (`own`) and of its children that have ended (`ended`)."""

    parent: int
    own: float
    ended: float


def parse_stat(line: str) -> Ticks:
    """One line of /proc/PID/stat. The command may hold spaces and brackets."""
    fields = line[line.rindex(")") + 2 :].split()
    return Ticks(
        int(fields[_PARENT]),
        (int(fields[_UTIME]) + int(fields[_STIME])) * TICK,
        (int(fields[_CUTIME]) + int(fields[_CSTIME])) * TICK,
    )


def _stat(pid: int) -> Ticks | None:
    try:
        return parse_stat(Path(f"/proc/{pid}/stat").read_text("ascii", errors="replace"))
    except (FileNotFoundError, ProcessLookupError):
        return None


def _family(root: int) -> dict[int, Ticks]:
    """A process and its living descendants."""
    found = {
        int(entry.name): _stat(int(entry.name)) for entry in Path("/proc").iterdir() if entry.name.isdigit()
    }
    children: dict[int, list[int]] = {}
    for pid, ticks in found.items():
        if ticks is not None:
            children.setdefault(ticks.parent, []).append(pid)
    family: dict[int, Ticks] = {}
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        ticks = found.get(pid)
        if ticks is not None:
            family[pid] = ticks
            waiting += children.get(pid, [])
    return family


def tree(root: int) -> list[int]:
    """The numbers of a process and its living descendants."""
    return list(_family(root))


def tree_cpu(root: int) -> float:
    """CPU seconds of a process, its living descendants and those that it has waited for."""
    return sum(ticks.own + ticks.ended for ticks in _family(root).values())


def size_in(file: Path, name: str) -> int:
    """A size that a file of /proc tells in kB, in bytes; 0 for a process that is gone."""
    try:
        lines = file.read_text("ascii", errors="replace").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(name)), 0)


def peak_rss_bytes(pid: int | None = None) -> int:
    """The largest resident size that a process (without a number: this one) has had, its start included.

    getrusage would count the process that started it as well.
    """
    return size_in(Path(f"/proc/{'self' if pid is None else pid}/status"), "VmHWM:")


def rss_bytes() -> int:
    """The resident size of this process now."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine's CPU seconds since its start: `busy` by anybody, `all` that there were."""

    busy: float
    all: float


def machine_cpu() -> Machine:
    """Read /proc/stat. Time that a hypervisor gave to others counts as busy."""
    first = Path("/proc/stat").read_text("ascii").splitlines()[0].split()
    user, nice, system, idle, iowait, irq, softirq, steal = (int(value) * TICK for value in first[1:9])
    busy = user + nice + system + irq + softirq + steal
    return Machine(busy, busy + idle + iowait)


@dataclass(frozen=True, slots=True)
class Usage:
    """What a span of time cost: wall seconds, CPU seconds of PostgreSQL, and the share of the machine that
    others used meanwhile (0 to 1)."""

    wall: float
    server_cpu: float
    foreign: float


class Meter:
    """Measures a span. `server` is the postmaster's process number.

    The bench's own processes must be its children, and have ended when the span does; `others` are process
    numbers that belong to the bench and live longer.
    """

    def __init__(self, server: int, others: tuple[int, ...] = ()) -> None:
        self._server = server
        self._others = others
        self._start = self._read()

    def _read(self) -> tuple[float, float, float, Machine]:
        mine = sum(
            usage.ru_utime + usage.ru_stime
            for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        )
        mine += sum(map(tree_cpu, self._others))
        return time.perf_counter(), tree_cpu(self._server), mine, machine_cpu()

    def stop(self) -> Usage:
        """What was used since the start."""
        wall, server, mine, machine = self._read()
        wall_0, server_0, mine_0, machine_0 = self._start
        available = machine.all - machine_0.all
        foreign = machine.busy - machine_0.busy - (server - server_0) - (mine - mine_0)
        share = max(foreign / available, 0.0) if available > 0 else 0.0
        return Usage(wall - wall_0, server - server_0, share)
