"""The vendor goes away when only a few records are left: its probes meet the same ones again and again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import psycopg
import pytest
from incidents import check_the_end, command, on_an_ordinary_day

from assay.vendor.server import start_vendor
from assay.vendor.settings import FaultShares
from labelling_project import TICKETS
from practice_runs import run_tickets, ticket_project

# Seconds of the database's clock per second: 15 s are half an hour.
SCALE: Final = 120
AWAY_SECONDS: Final = 15.0


@pytest.mark.parametrize("records", [1, 3])
async def test_an_outage_burns_none_of_the_last_records(records: int, tmp_path: Path, db_url: str) -> None:
    project = ticket_project(tmp_path, db_url, records)
    project.write("tickets.py", TICKETS.replace("max_attempts=20", "max_attempts=3"))
    with psycopg.connect(db_url) as connection:
        connection.execute(
            "UPDATE assay.instance SET clock_real = clock_timestamp(), clock_shown = clock_timestamp(),"
            " clock_scale = %s", (SCALE,),
        )  # fmt: skip
    config = replace(on_an_ordinary_day(project), faults=FaultShares())
    async with start_vendor(config) as vendor:
        await vendor.change({"server_error": 1.0}, seconds=AWAY_SECONDS)
        with command(project, *run_tickets(vendor.base_url, "--lease", "86400")) as worker:
            code, told = await worker.ended()
        assert code == 0, told[-2000:]
    failed = project.one("SELECT count(*) FROM assay.calls WHERE outcome = 'failed'")
    # More failures than all of these records have attempts together.
    assert failed > 3 * records, failed
    assert project.one("SELECT count(*) FROM assay.dead_letters") == 0
    assert project.one("SELECT max(attempts) FROM assay.annotation_tasks") <= 3
    check_the_end(project, records)
