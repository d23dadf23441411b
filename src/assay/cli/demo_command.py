"""What `assay demo` does: data, a practice vendor in its own process, a run, its figures, an audit."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final

from assay.cli.demo_server import own_server
from assay.cli.run_command import RunOptions, execute
from assay.cli.said import say
from assay.config import STATE_DIR, load_settings
from assay.demo.generator import write_jsonl

_LEASE_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """The options of `assay demo` with the practice vendor."""

    records: int
    seed: int
    concurrency: int
    latency: float


def execute_demo(options: DemoOptions) -> int:
    """Run the demo; returns the exit code of its run."""
    folder = demo_folder()
    pipeline = own_copy(folder, "tickets.py")
    own_copy(folder, "tickets.md")
    tickets = own_tickets(folder, options.records, options.seed)
    say(
        f"{options.records} tickets in ten languages; a practice vendor answers over HTTP. 8 % of its "
        "answers are wrong, 7 % of its calls fail or break the contract. Kill this at any moment and start "
        "it again: nothing is lost, nothing is doubled."
    )
    vendor = (
        "--gold", f"{tickets}#category", "--seed", str(_vendor_seed(folder, options)),
        "--latency", str(options.latency),
        "--error-rate", "0.08", "--journal", str(folder / "vendor.jsonl"),
    )  # fmt: skip
    with own_server("assay.vendor", vendor, "The practice vendor") as base_url:
        code = execute(demo_run(str(pipeline), tickets, options.concurrency, base_url))
    if code == 0:
        judge_labels(str(pipeline), tickets)
        show_next_steps(str(shortest(pipeline)), tickets)
        say("Then label something of your own: `init FOLDER` writes a project, `doctor` tells what it lacks:")
        for words in ("init my-labels", "doctor my-labels/tickets.py"):
            say(f"{typed_command()} {words}", head="  ")
    return code


def _vendor_seed(folder: Path, options: DemoOptions) -> int:
    """The seed of the vendor's mistakes: the demo's at its first start, another one at each later start.

    A vendor that draws the same faults again first refuses the very calls that it has refused before, and a
    worker that sees nothing but refusals slows down.
    """
    starts = folder / f"starts-{options.seed}-{options.records}"
    before = int(starts.read_text("ascii")) if starts.exists() else 0
    starts.write_text(str(before + 1), "ascii")
    return options.seed + 1000 * before


def demo_folder() -> Path:
    """The folder of demos in this project."""
    folder = load_settings().project / STATE_DIR / "demo"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def own_copy(folder: Path, name: str) -> Path:
    """Put a file of the demo into the project, once: it is the user's from then on."""
    target = folder / name
    if not target.exists():
        draft = target.with_name(f".{name}.draft")
        draft.write_text((files("assay.demo") / name).read_text("utf-8"), encoding="utf-8")
        draft.replace(target)
    return target


def own_tickets(folder: Path, records: int, seed: int) -> Path:
    """The tickets of a seed with their gold, made once."""
    tickets = folder / f"tickets-{seed}-{records}.jsonl"
    if not tickets.exists():
        write_jsonl(tickets, records, seed)
    return tickets


def demo_run(pipeline: str, tickets: Path, concurrency: int, base_url: str) -> RunOptions:
    """The run of a demo: its lease is short, so that a killed demo goes on soon."""
    return RunOptions(
        pipeline=pipeline, inputs=(str(tickets),), folder=tickets.parent, maps=("record_id=",),
        concurrency=concurrency, lease=_LEASE_SECONDS, base_url=base_url,
    )  # fmt: skip


def judge_labels(pipeline: str, tickets: Path) -> None:
    """Compare the labels with gold, then audit; a broken invariant ends the command with exit code 1."""
    from assay.cli.audit import audit
    from assay.cli.evaluate import evaluate

    evaluate(pipeline, gold=f"{tickets}#category", maps=["record_id="])
    audit()


def show_next_steps(pipeline: str, tickets: Path) -> None:
    """Say what to look at now; `pipeline` as it is typed on the command line."""
    say("Now look at it:")
    for words in (
        "status",
        f"results {pipeline} --reveal | head -3",
        f"explain {tickets.name}:1",
        f"eval {pipeline} --gold {shortest(tickets)}#category --map record_id=",
        "audit",
    ):
        say(f"{typed_command()} {words}", head="  ")


def typed_command() -> str:
    """How this command is typed in the working folder."""
    return "assay" if shutil.which("assay") else str(shortest(Path(sys.argv[0]).resolve()))


def shortest(path: Path) -> Path:
    """The path as a person in the working folder types it."""
    working = Path.cwd().resolve()
    return path.relative_to(working) if path.is_relative_to(working) else path
