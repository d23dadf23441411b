"""Reading what a running PostgreSQL wrote into its data folder."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from assay.adapters.embedded.processes import Life, life_of


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


def major_version(data: Path) -> int:
    """The major version that made the data folder."""
    return int((data / "PG_VERSION").read_text("ascii").strip())
