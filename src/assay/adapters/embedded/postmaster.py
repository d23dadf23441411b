"""Reading what a running PostgreSQL wrote into its data folder."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from assay.adapters.embedded.processes import Life, life_of

_SHUTTING_DOWN = 3


@dataclass(frozen=True, slots=True)
class Postmaster:
    """The lines of `postmaster.pid` that matter. `status` is starting, ready, stopping or empty."""

    pid: int
    port: int
    status: str

    @property
    def life(self) -> Life:
        return life_of(self.pid)


def read_postmaster(data: Path) -> Postmaster | None:
    """The `postmaster.pid` of a data folder; None when it is missing or not fully written yet."""
    try:
        lines = (data / "postmaster.pid").read_text("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return None
    try:
        pid, port = int(lines[0]), int(lines[3])
    except (IndexError, ValueError):
        return None
    return Postmaster(pid, port, lines[7].strip() if len(lines) > 7 else "")


def living_postmaster(data: Path) -> Postmaster | None:
    """The postmaster when its process lives, stopped (SIGSTOP) ones included; a zombie does not live."""
    found = read_postmaster(data)
    if found is None or found.pid <= 1 or found.life in {Life.GONE, Life.ZOMBIE}:
        return None
    return found


def system_identifier(data: Path) -> int:
    """The number that `initdb` gave this cluster: the first eight bytes of `global/pg_control`."""
    with (data / "global" / "pg_control").open("rb") as file:
        (number,) = struct.unpack("=Q", file.read(8))
    return int(number)


def is_shutting_down(data: Path) -> bool:
    """True while the last checkpoint of an orderly shutdown is written: the state in `global/pg_control`.

    The state follows the system identifier and two version numbers of four bytes; 3 is "shutting down".
    """
    try:
        with (data / "global" / "pg_control").open("rb") as file:
            (state,) = struct.unpack("=16xI", file.read(20))
    except FileNotFoundError:
        return False
    return bool(state == _SHUTTING_DOWN)


def major_version(data: Path) -> int:
    """The major version that made the data folder."""
    return int((data / "PG_VERSION").read_text("ascii").strip())
