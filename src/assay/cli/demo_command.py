"""What `assay demo` does: data, a practice vendor in its own process, a run, its figures, an audit."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final

import typer

from assay.cli.run_command import RunOptions, execute
from assay.config import STATE_DIR, load_settings
from assay.demo.generator import write_jsonl
from assay.domain.failures import AssayError

_VENDOR_STARTS_WITHIN_SECONDS: Final = 60.0
_LEASE_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """The options of `assay demo`."""

    records: int
    seed: int
    concurrency: int
    latency: float


def execute_demo(options: DemoOptions) -> int:
    """Run the demo; returns the exit code of its run."""
    folder = load_settings().project / STATE_DIR / "demo"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    pipeline = _own_copy(folder, "tickets.py")
    _own_copy(folder, "tickets.md")
    tickets = folder / f"tickets-{options.seed}-{options.records}.jsonl"
    if not tickets.exists():
        write_jsonl(tickets, options.records, options.seed)
    _say(
        f"{options.records} tickets in ten languages; a practice vendor answers over HTTP. 8 % of its "
        "answers are wrong, 7 % of its calls fail or break the contract. Kill this at any moment and start "
        "it again: nothing is lost, nothing is doubled."
    )
    with practice_vendor(tickets, options, folder) as base_url:
        code = execute(
            RunOptions(
                pipeline=str(pipeline), input_file=str(tickets), folder=folder, maps=("record_id=",),
                concurrency=options.concurrency, lease=_LEASE_SECONDS, base_url=base_url,
            )
        )  # fmt: skip
    if code == 0:
        _look_at_it(pipeline, tickets)
    return code


def _own_copy(folder: Path, name: str) -> Path:
    """Put a file of the demo into the project, once: it is the user's from then on."""
    target = folder / name
    if not target.exists():
        draft = target.with_name(f".{name}.draft")
        draft.write_text((files("assay.demo") / name).read_text("utf-8"), encoding="utf-8")
        draft.replace(target)
    return target


@contextmanager
def practice_vendor(tickets: Path, options: DemoOptions, folder: Path) -> Iterator[str]:
    """A vendor process that ends with us, however we end: it stops when its standard input closes."""
    with tempfile.TemporaryDirectory(prefix="assay-vendor-") as scratch:
        ready = Path(scratch) / "ready"
        process = subprocess.Popen(
            [sys.executable, "-m", "assay.vendor", "--gold", f"{tickets}#category", "--seed",
             str(options.seed), "--latency", str(options.latency), "--error-rate", "0.08",
             "--journal", str(folder / "vendor.jsonl"), "--ready-file", str(ready), "--stop-with-stdin"],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            yield _wait_until_ready(process, ready)
        finally:
            if process.stdin is not None:
                process.stdin.close()
            process.wait(timeout=30)


def _wait_until_ready(process: subprocess.Popen[bytes], ready: Path) -> str:
    deadline = time.monotonic() + _VENDOR_STARTS_WITHIN_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise AssayError(
                "The practice vendor did not start; run `assay vendor --help` to try it by hand."
            )
        if ready.exists():
            return ready.read_text("utf-8").strip()
        time.sleep(0.02)
    raise AssayError("The practice vendor did not start within a minute; is the machine very busy?")


def _look_at_it(pipeline: Path, tickets: Path) -> None:
    from assay.cli.audit import audit
    from assay.cli.evaluate import evaluate

    gold = f"{tickets}#category"
    evaluate(str(pipeline), gold=gold, maps=["record_id="])
    audit()
    shown = _shortest(pipeline)
    command = "assay" if shutil.which("assay") else str(_shortest(Path(sys.argv[0]).resolve()))
    _say("Now look at it:")
    for words in (
        "status",
        f"results {shown} --reveal | head -3",
        f"explain {tickets.name}:1",
        f"eval {shown} --gold {_shortest(tickets)}#category --map record_id=",
        "audit",
    ):
        typer.echo(f"  {command} {words}", err=True)


def _shortest(path: Path) -> Path:
    working = Path.cwd().resolve()
    return path.relative_to(working) if path.is_relative_to(working) else path


def _say(told: str) -> None:
    typer.echo(f"assay: {told}", err=True)
