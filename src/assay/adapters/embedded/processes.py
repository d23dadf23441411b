"""Starting programs with nothing inherited, and telling a living process from a dead one."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO

# Everything else, secrets of the caller first of all, stays out of programs that outlive it.
_PASSED_ON = ("PATH", "HOME", "TMPDIR")


class Life(StrEnum):
    """What the kernel says about a process id."""

    GONE = "gone"
    ZOMBIE = "zombie"
    STOPPED = "stopped"
    ALIVE = "alive"


@dataclass(frozen=True, slots=True)
class Identity:
    """The user and group that a program runs as."""

    name: str
    uid: int
    gid: int


class CleanProcess(subprocess.Popen[bytes]):
    """A program started with closed descriptors and a short environment.

    `identity` None keeps the caller's user. `keep` are descriptors that the program is handed on purpose.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        output: int | IO[bytes],
        identity: Identity | None = None,
        keep: Sequence[int] = (),
        folder: Path = Path("/"),
    ) -> None:
        super().__init__(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            close_fds=True,
            pass_fds=tuple(keep),
            cwd=folder,
            start_new_session=True,
            user=None if identity is None else identity.uid,
            group=None if identity is None else identity.gid,
            extra_groups=None if identity is None else [],
        )


def server_environment() -> dict[str, str]:
    """What `postgres` and `initdb` see: no PG*, no LD_*, no secret; messages in English, time in UTC."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}


def python_environment() -> dict[str, str]:
    """What our own supervisor sees: where Python and assay are, and nothing else."""
    package_root = str(Path(__file__).resolve().parents[3])
    search = [package_root, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    chosen = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    for name in ("PYTHONHOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"):
        if name in os.environ:
            chosen[name] = os.environ[name]
    return {**chosen, "PYTHONPATH": os.pathsep.join(part for part in search if part), "LC_ALL": "C"}


def output_of(command: Sequence[str], *, identity: Identity | None = None) -> tuple[int, str]:
    """Run a short program; its exit status, and standard output and error together."""
    with CleanProcess(
        command, environment=server_environment(), output=subprocess.PIPE, identity=identity
    ) as process:
        output, _ = process.communicate()
    return process.returncode, output.decode("utf-8", "replace").strip()


def life_of(pid: int) -> Life:
    """Whether `pid` lives. A zombie, dead but not reaped, answers to signal 0 and is not alive."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return Life.GONE if Path("/proc/self/stat").exists() else _life_by_ps(pid)
    return _life(stat.rpartition(b")")[2].strip()[:1].decode())


def _life_by_ps(pid: int) -> Life:
    program = shutil.which("ps")
    if program is not None:
        status, text = output_of([program, "-o", "stat=", "-p", str(pid)])
        return _life(text[:1]) if status == 0 else Life.GONE
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return Life.GONE
    except PermissionError:
        return Life.ALIVE
    return Life.ALIVE


def _life(letter: str) -> Life:
    if letter in {"", "X", "x"}:
        return Life.GONE
    if letter == "Z":
        return Life.ZOMBIE
    return Life.STOPPED if letter in {"T", "t"} else Life.ALIVE
