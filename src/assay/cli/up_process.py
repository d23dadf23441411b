"""One process of `assay up`: takes its lock, notes its id, and is a command of assay from then on.

Internal: `python -m assay.cli.up_process FOLDER NAME BROKER ARGUMENT...`. The lock is free when it has ended,
however it ended, and whoever starts a second one is told by it. BROKER is `embedded` or empty: with
`embedded` it holds a lease on the project's broker, which then outlives a killed supervisor.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from assay.adapters.embedded.broker import EmbeddedBroker
from assay.adapters.embedded.locks import FileLock
from assay.adapters.embedded.state import write_private
from assay.cli.main import main as run_command
from assay.cli.up_places import UpPlaces
from assay.config import load_settings

# Another process of this name lives.
TAKEN: Final = 75


def main(arguments: Sequence[str]) -> None:
    """Be the process; ends with the command's exit code."""
    folder, name, broker, *command = arguments
    os.umask(0o077)
    places = UpPlaces(Path(folder))
    lock = FileLock(places.lock(name))
    if not lock.acquire(timeout=1.0):
        sys.exit(TAKEN)
    write_private(places.pid_file(name), f"{os.getpid()}\n")
    if broker:
        lease = EmbeddedBroker(load_settings().project).acquire()
        command += ["--brokers", lease.bootstrap]
    sys.argv = ["assay", *command]
    run_command()


if __name__ == "__main__":
    main(sys.argv[1:])
