"""Runs of the ticket pipeline against a practice vendor that listens in the test's own event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from assay.demo.generator import write_jsonl
from assay.vendor.server import RunningVendor, start_vendor
from assay.vendor.settings import FaultShares, VendorConfig
from labelling_project import TICKETS, Project

CONCURRENCY: Final = 4
NO_FAULTS: Final = FaultShares()


def ticket_project(folder: Path, database_url: str, tickets: int) -> Project:
    """A project with `tickets.py` and as many generated tickets, with gold, in `gold.jsonl`."""
    project = Project(folder, database_url)
    project.write("tickets.py", TICKETS)
    write_jsonl(folder / "gold.jsonl", tickets, seed=5)
    return project


@asynccontextmanager
async def practising(
    project: Project, *, faults: FaultShares = NO_FAULTS, latency: float = 0.05, port: int = 0,
    api_key: str | None = None,
) -> AsyncIterator[RunningVendor]:  # fmt: skip
    """A vendor that knows `gold.jsonl` and journals to `journal.jsonl`; its mistakes are always the same."""
    config = VendorConfig(
        project.folder / "gold.jsonl", seed=3, latency=latency, retry_after=0, faults=faults, port=port,
        api_key=api_key, journal=project.folder / "journal.jsonl",
    )  # fmt: skip
    async with start_vendor(config) as vendor:
        yield vendor


def run_tickets(
    base_url: str, *options: str, input_file: str = "gold.jsonl", concurrency: int = CONCURRENCY
) -> tuple[str, ...]:
    """The command that labels a file, with leases of two seconds."""
    return ("run", "tickets.py", "--input", input_file, "--base-url", base_url, "--lease", "2",
            "--concurrency", str(concurrency), *options)  # fmt: skip
