"""A network between a run and its database that loses replies after the commit, delays, and swallows."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import pytest
from incidents import Command, check_the_end, command, on_an_ordinary_day
from psycopg.conninfo import conninfo_to_dict

from assay.vendor.journal import Stats
from assay.vendor.server import RunningVendor, start_vendor
from labelling_project import Project
from practice_runs import run_tickets, ticket_project
from tcp_proxy import TcpProxy, Trouble, proxied

CONCURRENCY: Final = 50
RECORDS: Final = 500
# How often something is lost in a run.
LOSSES: Final = 15


@pytest.fixture
def project(tmp_path: Path, db_url: str) -> Project:
    return ticket_project(tmp_path, db_url, RECORDS)


def labelling(vendor: RunningVendor) -> tuple[str, ...]:
    # No lease ends: whatever is lost comes from the network alone.
    return run_tickets(vendor.base_url, "--lease", "60", concurrency=CONCURRENCY)


def has_ended(calls: int, stats: Stats) -> bool:
    return stats.ended >= calls


def through(proxy: TcpProxy) -> str:
    """The database's URL with the proxy as its host."""
    parts = conninfo_to_dict(proxy.url)
    query = urlencode({name: parts[name] for name in ("sslmode", "gssencmode")})
    return f"postgresql://{parts['user']}:{parts['password']}@127.0.0.1:{parts['port']}/{parts['dbname']}?{query}"


async def lose_at_random(
    running: Command, vendor: RunningVendor, trouble: Trouble, chance: random.Random
) -> None:
    """As the run goes on, lose COMMITs or the replies to them, one, two or three at a time."""
    for calls in sorted(chance.sample(range(20, RECORDS), LOSSES)):
        await running.until(vendor, partial(has_ended, calls))
        kind = chance.choice(("lost_replies", "lost_replies", "lost_commits"))
        with trouble.lock:
            setattr(trouble, kind, getattr(trouble, kind) + chance.randint(1, 3))
        trouble.delay_seconds = chance.choice((0.0, 0.0, 0.01))


async def ended_well(running: Command) -> None:
    code, told = await running.ended()
    assert code == 0, told[-2000:]


async def test_replies_are_lost_after_the_commit(project: Project) -> None:
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    async with start_vendor(on_an_ordinary_day(project)) as vendor:
        with proxied(project.database_url) as proxy:
            with command(project, *labelling(vendor), ASSAY_DATABASE_URL=through(proxy)) as running:
                await lose_at_random(running, vendor, proxy.trouble, random.Random(seed))
                await ended_well(running)
            left = proxy.trouble.lost_replies + proxy.trouble.lost_commits
            assert proxy.trouble.commits_seen > LOSSES
            # The last ones may find no COMMIT any more.
            assert left < LOSSES // 2
        stats = vendor.stats()
    found = check_the_end(project, RECORDS)
    # Nothing was called twice, taken over or charged without a call.
    assert found.keys("unknown") == found.late() == set()
    assert len(found.journal) == stats.calls
    assert project.one("SELECT count(*) FROM assay.task_history WHERE move = 'take_over'") == 0
    assert project.one("SELECT max(revision) FROM assay.results") == 1


@pytest.mark.scale
async def test_connections_are_swallowed(project: Project) -> None:
    """Everything on the way to the database and back is swallowed for good; new connections work."""
    async with start_vendor(on_an_ordinary_day(project)) as vendor:
        with proxied(project.database_url) as proxy:
            with command(project, *labelling(vendor), ASSAY_DATABASE_URL=through(proxy)) as running:
                await running.until(vendor, partial(has_ended, RECORDS // 4))
                proxy.trouble.silent = True
                # Slots go on until their finishes have no more room; then nothing is called.
                await running.until(vendor, lambda stats: stats.in_flight == 0)
                proxy.trouble.silent = False
                proxy.trouble.silent_replies = 1
                code, told = await running.ended(240)
            assert code == 0, told[-2000:]
    found = check_the_end(project, RECORDS)
    assert len(found.keys("unknown") | found.late()) <= 2 * CONCURRENCY
