"""The practice vendor in a process of its own, without faults."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.children import ChildFailed

_PATIENCE: Final = 60.0


@dataclass(frozen=True, slots=True)
class RunningVendor:
    """Where it listens, and its process number."""

    address: str
    pid: int


@contextmanager
def running_vendor(records: Path, latency: float) -> Iterator[RunningVendor]:
    """Answers the texts of a file of records, each after `latency` seconds."""
    with tempfile.TemporaryDirectory(prefix="assay-bench-vendor-") as folder:
        gold, ready = Path(folder) / "gold.jsonl", Path(folder) / "ready"
        with records.open(encoding="utf-8") as lines, gold.open("w", encoding="utf-8") as file:
            for line in lines:
                file.write(json.dumps(json.loads(line) | {"category": "billing"}) + "\n")
        command = [
            sys.executable, "-m", "assay.vendor", "--gold", f"{gold}#category", "--latency", str(latency),
            "--latency-spread", "0", "--error-rate", "0", "--rate-limit-share", "0",
            "--server-error-share", "0", "--prose-share", "0", "--string-confidence-share", "0",
            "--extra-field-share", "0", "--truncation-share", "0", "--ready-file", str(ready),
            "--stop-with-stdin",
        ]  # fmt: skip
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
            try:
                yield RunningVendor(_await(ready, process), process.pid)
            finally:
                process.kill()


def _await(ready: Path, process: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        if ready.exists() and (address := ready.read_text("utf-8").strip()):
            return address
        time.sleep(0.02)
    raise ChildFailed("the practice vendor did not start")
