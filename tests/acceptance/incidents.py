"""Whole runs under load, and what must hold when an incident is over."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Final

from ledger_against_journal import TwoBooks, two_books

from assay.vendor.price import Price
from assay.vendor.server import RunningVendor
from assay.vendor.settings import FaultShares, VendorConfig
from assay.vendor.stats import Stats
from labelling_project import ASSAY, PATIENCE_SECONDS, Project

# The price of the pipeline `tickets`; input read from the cache costs as much as other input.
PRICE_LIST: Final = Price(Decimal(1), Decimal(4), Decimal(1))
FAULTS: Final = FaultShares(
    prose_prefix=0.015, string_confidence=0.01, extra_field=0.01, truncation=0.01, html=0.01,
    reset_mid_body=0.01, truncated_json=0.005, missing_usage=0.005,
)  # fmt: skip
ANSWERED: Final = frozenset({"auto_candidate", "review_pending"})


def on_an_ordinary_day(project: Project) -> VendorConfig:
    """A vendor with mistakes and faults, 50 to 300 ms per call, a price list and a journal.

    Nothing that asks a worker to slow down (429, 503): there would be no load.
    """
    return VendorConfig(
        project.folder / "gold.jsonl", seed=3, error_rate=0.02, latency=0.175, latency_spread=0.714,
        retry_after=0, faults=FAULTS, price=PRICE_LIST, cached_share=0.25,
        journal=project.folder / "journal.jsonl",
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Command:
    """A command under way. What it says goes to files: a full pipe would hold it up."""

    process: subprocess.Popen[str]
    errors: Path

    async def ended(self, within: float = PATIENCE_SECONDS) -> tuple[int, str]:
        """Its exit code and what it said on standard error, once it has ended."""
        code = await asyncio.to_thread(self.process.wait, within)
        return code, self.said()

    async def until(self, vendor: RunningVendor, holds: Callable[[Stats], bool]) -> None:
        """Wait until the vendor's counts are as asked; an error when the command ends before."""
        loop = asyncio.get_running_loop()
        waiting = asyncio.create_task(vendor.until(holds))
        descriptor = os.pidfd_open(self.process.pid)
        loop.add_reader(descriptor, waiting.cancel)
        try:
            await asyncio.wait([waiting])
        finally:
            loop.remove_reader(descriptor)
            os.close(descriptor)
            waiting.cancel()
        assert not waiting.cancelled(), f"it ended before that: {self.said()[-2000:]}"

    def said(self) -> str:
        """What it has said on standard error so far."""
        return self.errors.read_text(encoding="utf-8", errors="replace")


@contextmanager
def command(project: Project, *arguments: str, **environment: str) -> Iterator[Command]:
    """A command that goes on while the block does; it is killed when the block ends before it."""
    number = len(list(project.folder.glob("command-*.err")))
    errors = project.folder / f"command-{number}.err"
    with errors.open("w", encoding="utf-8") as said, subprocess.Popen(
        [*ASSAY, *arguments], cwd=project.folder, env=project.environment(environment), text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said,
    ) as process:  # fmt: skip
        try:
            yield Command(process, errors)
        finally:
            if process.poll() is None:
                process.kill()


async def run_to_the_end(project: Project, arguments: Sequence[str], **environment: str) -> None:
    """Run a command that must succeed."""
    with command(project, *arguments, **environment) as running:
        code, told = await running.ended()
    assert code == 0, told[-2000:]


def destinations(project: Project) -> Counter[str]:
    """How many tasks are in which state; each record has one task and one result."""
    states = Counter(project.states())
    assert project.one("SELECT count(DISTINCT record_id) FROM assay.annotation_tasks") == states.total()
    assert project.one("SELECT count(*) FROM assay.results") == states.total()
    return states


def check_the_end(project: Project, records: int, *, offsets: int | None = None) -> TwoBooks:
    """Everything is labelled once or a dead letter of a contract, committed, audited; the books agree."""
    states = destinations(project)
    assert states.total() == records, states
    assert states.keys() <= ANSWERED | {"quarantined"}, states
    codes = project.rows("SELECT DISTINCT failure_class FROM assay.dead_letters")
    assert codes in ([], [("contract",)]), codes
    assert project.committed() == (records if offsets is None else offsets)
    assert project.broken() == []
    found = two_books(project)
    assert found.discrepancies() == []
    return found
