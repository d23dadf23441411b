"""Two workers share one vendor account: together they use what it allows, and no more."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Final

import pytest
from _pytest.mark import ParameterSet
from incidents import check_the_end, command, on_an_ordinary_day
from ledger_against_journal import TwoBooks

from assay.vendor.server import start_vendor
from assay.vendor.settings import FaultShares, VendorConfig
from assay.vendor.stats import Stats
from labelling_project import Project
from practice_runs import run_tickets, ticket_project

CONCURRENCY: Final = 40
WORKERS: Final = 2
# Seconds at the beginning and at the end of a run that are not steady.
RISE: Final = 5.0
FALL: Final = 3.0
# Tokens of a call of these tickets, about.
TOKENS_PER_CALL: Final = 140


@dataclass(frozen=True, slots=True)
class Case:
    """`calls` per minute that the vendor allows, as requests or in tokens; what workers must reach."""

    name: str
    calls: int
    settings: dict[str, int | bool]
    records: int
    used: float
    refused: float


CASES: Final[tuple[Case | ParameterSet, ...]] = (
    Case("requests", 2400, {"limit_requests": 2400}, records=1000, used=0.95, refused=0.002),
    pytest.param(
        # Some texts take more than a second's tokens: a bucket of one second would hardly ever let them in.
        Case("tokens", 2400, {"limit_tokens": 2400 * TOKENS_PER_CALL, "burst": 5}, records=1600, used=0.95,
             refused=0.005),
        marks=pytest.mark.scale,
    ),
    pytest.param(
        Case("hidden", 1800, {"limit_requests": 1800, "hide_limits": True}, records=2000, used=0.9,
             refused=0.05),
        marks=pytest.mark.scale,
    ),
)  # fmt: skip


def limited(project: Project, case: Case) -> VendorConfig:
    config = replace(on_an_ordinary_day(project), faults=FaultShares(), retry_after=1)
    settings = case.settings
    return replace(
        config, limit_requests=settings.get("limit_requests"), limit_tokens=settings.get("limit_tokens"),
        hide_limits=bool(settings.get("hide_limits")), limit_burst=settings.get("burst", 1),
    )  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_two_workers_with_one_account(case: Case, tmp_path: Path, db_url: str) -> None:
    project = ticket_project(tmp_path, db_url, case.records)
    async with start_vendor(limited(project, case)) as vendor:
        labelling = run_tickets(vendor.base_url, "--lease", "60", concurrency=CONCURRENCY)
        with ExitStack() as stack:
            workers = [stack.enter_context(command(project, *labelling)) for _ in range(WORKERS)]
            for worker in workers:
                code, told = await worker.ended()
                assert code == 0, told[-2000:]
        stats = vendor.stats()
    found = check_the_end(project, case.records)
    assert project.one("SELECT count(DISTINCT actor) FROM assay.task_history WHERE move = 'claim'") == WORKERS
    refused = stats.by_status["429"] / stats.calls
    used = share_used(found, case, tokens="limit_tokens" in case.settings)
    print(f"{case.name}: used {used:.1%}, refused {refused:.2%} ({stats.by_status['429']})")
    check_windows(stats, case)
    assert refused <= case.refused
    assert used >= case.used


def share_used(found: TwoBooks, case: Case, *, tokens: bool) -> float:
    """What was admitted in the steady part of the run, as a share of what is allowed."""
    admitted = sorted(
        (datetime.fromisoformat(entry.time).timestamp(), entry.prompt_tokens + entry.completion_tokens)
        for _, entry in found.journal if entry.status != 429
    )  # fmt: skip
    begin, end = admitted[0][0] + RISE, admitted[-1][0] - FALL
    steady = [size if tokens else 1 for at, size in admitted if begin <= at < end]
    limit = case.settings["limit_tokens"] if tokens else case.calls
    return sum(steady) / (limit / 60 * (end - begin))


def check_windows(stats: Stats, case: Case) -> None:
    """In any t seconds no more than limit / 60 * (t + burst), and what one call is larger than the bucket."""
    (account,) = stats.by_account.values()
    if (requests := case.settings.get("limit_requests")) is not None:
        assert account.most_in_1s <= requests / 60 * 2 + 1
        assert account.most_in_60s <= requests / 60 * 61 + 1
    if (tokens := case.settings.get("limit_tokens")) is not None:
        assert account.most_tokens_in_60s <= tokens / 60 * (60 + case.settings["burst"]) + 4 * TOKENS_PER_CALL
