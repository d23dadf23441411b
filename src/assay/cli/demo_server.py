"""A server of the demo's own: another process, on a loopback address, that ends when the demo does."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from assay.domain.failures import AssayError

_STARTS_WITHIN_SECONDS: Final = 60.0


@contextmanager
def own_server(module: str, arguments: Sequence[str], called: str) -> Iterator[str]:
    """Run `python -m MODULE` and yield its base URL. It stops when its standard input closes, however we end.

    It is in a process group of its own: Ctrl-C lets the run finish what is in flight, with its server.
    """
    with tempfile.TemporaryDirectory(prefix="assay-demo-") as scratch:
        ready = Path(scratch) / "ready"
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments, "--ready-file", str(ready), "--stop-with-stdin"],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, process_group=0,
        )  # fmt: skip
        try:
            yield _wait_until_ready(process, ready, module, called)
        finally:
            if process.stdin is not None:
                process.stdin.close()
            process.wait(timeout=30)


def _wait_until_ready(process: subprocess.Popen[bytes], ready: Path, module: str, called: str) -> str:
    deadline = time.monotonic() + _STARTS_WITHIN_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise AssayError(f"{called} did not start; run `python -m {module} --help` to try it by hand.")
        if ready.exists():
            return ready.read_text("utf-8").strip()
        time.sleep(0.02)
    raise AssayError(f"{called} did not start within a minute; is the machine very busy?")
