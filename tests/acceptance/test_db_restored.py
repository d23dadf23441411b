"""After a restore: what is announced from here on has ids that no consumer has seen."""

from __future__ import annotations

import asyncio
from pathlib import Path

from practice_runs import practising, run_tickets, ticket_project


async def test_events_after_a_restore_have_ids_of_their_own(tmp_path: Path, db_url: str) -> None:
    project = ticket_project(tmp_path, db_url, 10)
    async with practising(project) as vendor:
        command = run_tickets(vendor.base_url, "--limit", "5")
        await asyncio.to_thread(lambda: project.done(*command))
        assert '"restore_epoch": 1' in await asyncio.to_thread(
            lambda: project.done("db", "restored", "--json")
        )
        command = run_tickets(vendor.base_url)
        await asyncio.to_thread(lambda: project.done(*command))
    ids = project.rows(
        "SELECT epoch, count(*) FROM assay.outbox_events, generate_series(0, 1) AS epoch"
        " WHERE event_id = assay.event_id(aggregate_kind, aggregate_id, kind, revision, epoch)"
        " GROUP BY epoch ORDER BY epoch"
    )
    assert ids == [(0, 5), (1, 5)]
    assert project.broken() == []


def test_not_while_a_worker_holds_a_lease(tmp_path: Path, db_url: str) -> None:
    project = ticket_project(tmp_path, db_url, 10)
    project.done("pipeline", "register", "tickets.py")
    project.rows("INSERT INTO assay.leases (owner, started_at, lease_until)"
                 " VALUES ('w', now(), now() + interval '1 minute') RETURNING 1")  # fmt: skip
    refused = project.finished("db", "restored")
    assert refused.returncode == 2
    assert "holds a lease" in refused.stderr
    assert project.one("SELECT restore_epoch FROM assay.instance") == 0
