"""The account's row when the clock steps back, a vendor miscounts, or a moment lies far ahead."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest
from account_rows import DOWN, Row, a_report, assert_alike, workers

from account_model import ModelAccount
from assay.domain.account import AccountReport
from assay.domain.breaker import BreakerState, Failure
from assay.domain.pacing import Ask, Limits
from assay.domain.permitted_rate import Push
from assay.ports import AccountPort


@pytest.fixture
def row(db_url: str) -> Any:
    with psycopg.connect(db_url, autocommit=True) as db:
        yield Row(db_url, db)


@pytest.mark.parametrize("seed", range(3))
async def test_a_clock_that_steps_back_takes_the_account_with_it(row: Row, seed: int) -> None:
    """Reports, moves and steps of the clock in any order: the row goes the model's way, nothing is raised."""
    row.stop_clock()
    chance = random.Random(seed)
    declared = [Limits(), Limits(1200.0), Limits(240.0, 9000.0)][seed]
    model = ModelAccount(lambda: row.shown)
    moves: list[Callable[[AccountPort], Awaitable[None]]] = [
        lambda port: port.open_breaker(DOWN),
        lambda port: port.begin_probe(),
        lambda port: port.probe_succeeded(),
        lambda port: port.probe_failed(Failure("provider_timeout", 0.5, 900.0)),
        lambda port: port.probe_unused(),
    ]
    async with workers(row.url, "w") as (ours,):
        theirs = model.worker("w")
        for _ in range(120):
            row.advance(chance.choice([0.0, 0.3, 1.0, 7.0, 100.0, -0.5, -30.0, -600.0]))
            if chance.random() < 0.4:
                move = chance.choice(moves)
                await move(ours)
                await move(theirs)
            if chance.random() < 0.3:
                assert_alike(await ours.look(), await theirs.look())
            else:
                report = a_report(chance, declared)
                assert_alike(await ours.sync(report), await theirs.sync(report))


async def test_ten_minutes_back_nothing_stands_still(row: Row) -> None:
    """A hold, a booked line and an open breaker last as long as they would have."""
    row.stop_clock()
    async with workers(row.url, "w", "w2") as (store, other):
        asks = AccountReport(declared=Limits(60.0), ask=Ask(1, 10.0))
        await store.sync(AccountReport(declared=Limits(60.0), push=Push.REFUSED, retry_after=3.0))
        row.advance(-600.0)
        view = await store.sync(asks)
        assert view.hold_seconds == pytest.approx(3.0)
        assert view.booking is not None
        assert view.booking.grant.starts_in == pytest.approx(3.0)
        row.advance(10.0)
        await store.open_breaker(DOWN)
        row.advance(-600.0)
        # A move that comes before anybody looked hides nothing.
        await other.begin_probe()
        until = (await other.look()).breaker.until
        assert until is not None
        assert until <= 5.0
        row.advance(5.0)
        await other.begin_probe()
        row.advance(-600.0)
        await other.probe_succeeded()
        view = await store.sync(asks)
        assert view.breaker.state is BreakerState.CLOSED
        assert view.booking is not None
        assert view.booking.grant.starts_in <= 2.0
    assert [kind for kind, _ in row.events()][-1] == "closed"
    assert not row.db.execute("SELECT FROM assay.account_events WHERE opened_at > at").fetchall()


@pytest.mark.parametrize("error", [1e9, 1e15, 1e300, float(2**1000), -1e15])
async def test_a_vendor_that_miscounts_blocks_for_a_minute_at_most(row: Row, error: float) -> None:
    row.stop_clock()
    model = ModelAccount(lambda: row.shown)
    limits = Limits(600.0, 60_000.0)
    async with workers(row.url, "w") as (store,):
        for _ in range(3):
            report = AccountReport(declared=limits, token_error=error)
            assert_alike(await store.sync(report), await model.worker("w").sync(report))
        asks = AccountReport(declared=limits, ask=Ask(1, 100.0))
        view = await store.sync(asks)
        assert_alike(view, await model.worker("w").sync(asks))
        assert view.booking is not None
        assert view.booking.grant.starts_in <= 60.0


async def test_a_row_that_lies_far_ahead_comes_back(row: Row) -> None:
    row.stop_clock()
    async with workers(row.url, "w") as (store,):
        row.db.execute(
            "UPDATE assay.vendor_accounts SET next_token_at = assay.assay_now() + interval '9 days', "
            "next_request_at = assay.assay_now() + interval '9 days', hold_until = assay.assay_now() + "
            "interval '9 days', breaker_state = 'open', open_reason = 'x', opened_at = assay.assay_now(), "
            "open_until = assay.assay_now() + interval '9 days'"
        )
        until = (await store.look()).breaker.until
        assert until == pytest.approx(3600.0)
        view = await store.sync(AccountReport(declared=Limits(600.0, 60_000.0)))
        assert view.hold_seconds == pytest.approx(3600.0)
        for column in ("next_token_at", "next_request_at"):
            query = "SELECT extract(epoch FROM {} - assay.assay_now())::float8 FROM assay.vendor_accounts"
            name = psycopg.sql.Identifier(column)
            ((ahead,),) = row.db.execute(psycopg.sql.SQL(query).format(name)).fetchall()
            assert ahead <= 62.0
