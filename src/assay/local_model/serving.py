"""Start and stop of the local model as a process."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
from pathlib import Path

from assay.local_model.engine import start_model
from assay.local_model.settings import Launch, LocalModelError


def serve(launch: Launch) -> None:
    """Serve until SIGTERM or SIGINT (or, if asked, until standard input closes); then the process ends.

    When it listens, one line on standard output names the base URL, and the ready file is written in one
    step, holding the base URL and a line break. The ready file is removed at the stop.
    """
    stop = threading.Event()
    if launch.stop_with_stdin:
        # Before the weights are loaded: a starter that is gone by then must not leave a server behind.
        threading.Thread(target=_wait_for_end_of_stdin, args=(stop,), daemon=True).start()
    model = start_model(launch.config)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.set())
    try:
        if launch.ready_file is not None:
            _write_whole(launch.ready_file, f"{model.base_url}\n")
        print(f"local model listening on {model.base_url}", flush=True)
        stop.wait()
    finally:
        if launch.ready_file is not None:
            launch.ready_file.unlink(missing_ok=True)
    # The engine would first finish the answers that it writes; whoever stops it wants none of them.
    sys.stdout.flush()
    os._exit(0)


def _wait_for_end_of_stdin(stop: threading.Event) -> None:
    while os.read(0, 65_536):
        pass
    stop.set()


def _write_whole(path: Path, text: str) -> None:
    """Write beside the file and rename: a reader sees all of it or nothing."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).replace(path)
    except OSError as error:
        raise LocalModelError(f"the ready file {path} cannot be written; check --ready-file") from error
