"""Backends that outlive a killed postmaster: busy ones notice its death only when their query ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path


def end_leftovers(data: Path) -> int:
    """Ask every process that works in the data folder to end (SIGTERM); how many were asked.

    Call it only while no postmaster of `data` lives. Needs /proc; elsewhere nothing is asked and the
    caller goes on waiting for them to end by themselves.
    """
    asked = 0
    for pid in _working_in(data.resolve()):
        try:
            os.kill(pid, signal.SIGTERM)
        except ProcessLookupError:
            continue  # ended by itself
        asked += 1
    return asked


def _working_in(folder: Path) -> Iterator[int]:
    owner = folder.stat().st_uid if folder.exists() else -1
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if entry.stat().st_uid == owner and (entry / "cwd").readlink() == folder:
                yield int(entry.name)
        except OSError:
            continue  # ended, or not ours to look at
