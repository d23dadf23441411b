"""A spend cap holds for documents a hundred times longer than what a version is reckoned for at first."""

from __future__ import annotations

import asyncio
import json
from decimal import Decimal
from pathlib import Path
from typing import Final

from assay.vendor.price import Price
from assay.vendor.server import start_vendor
from assay.vendor.settings import VendorConfig
from labelling_project import TICKETS, Project
from practice_runs import run_tickets

RECORDS: Final = 40
BYTES: Final = 400_000
# Room for one such document at its worst, lost call included, and for what a few true calls cost.
CAP: Final = Decimal("1.5")
PRICE: Final = Price(Decimal(1), Decimal(4), Decimal(1))


async def test_a_day_cap_holds_for_long_documents(tmp_path: Path, db_url: str) -> None:
    project = Project(tmp_path, db_url)
    project.write("tickets.py", TICKETS.replace("max_attempts=20", 'parameters={"max_tokens": 200}'))
    project.write_records(
        "gold.jsonl",
        [
            # Short ones come first: the reserve grows while work is in hand.
            {"id": f"d{n}", "text": f"{n} refund " * (BYTES // 10 if n >= RECORDS // 4 else 1),
             "category": "billing"}
            for n in range(RECORDS)
        ],
    )  # fmt: skip
    project.done("pipeline", "register", "tickets.py")
    project.done("budget", "set", "tickets", "--day", f"{CAP}")
    journal = tmp_path / "journal.jsonl"
    config = VendorConfig(tmp_path / "gold.jsonl", seed=3, latency=0.3, price=PRICE, journal=journal)
    async with start_vendor(config) as vendor:
        ended = await asyncio.to_thread(project.finished, *run_tickets(vendor.base_url, concurrency=32))
        await vendor.until(lambda stats: stats.in_flight == 0)
    assert ended.returncode == 3, ended.stderr[-2000:]
    assert "used up" in ended.stderr
    entries = [json.loads(line) for line in journal.read_text().splitlines()]
    billed = sum(Decimal(entry["cost"]) for entry in entries if entry.get("cost") is not None)
    spent = project.one("SELECT sum(cost) FROM assay.spend")
    dearest = project.one("SELECT max(cost) FROM assay.calls")
    reserve = project.one("SELECT call_reserve FROM assay.pipeline_versions")
    assert dearest > CAP / 25, "long documents were called"
    assert dearest <= reserve
    assert max(billed, spent) <= CAP
    assert spent > CAP - 3 * reserve, "the cap was used up to one record's worst case"
    assert project.broken() == []
