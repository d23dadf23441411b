"""The account's row: it follows the rules of the domain to the letter, also with two workers at once."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest
from account_rows import DOWN, Row, a_report, assert_alike, workers

from account_model import ModelAccount
from assay.adapters.postgres.account_store import AccountStore
from assay.domain.account import AccountReport
from assay.domain.breaker import BreakerState, Failure
from assay.domain.pacing import Ask, Limits
from assay.domain.permitted_rate import Push
from assay.ports import AccountPort
from tcp_proxy import proxied


@pytest.fixture
def row(db_url: str) -> Any:
    with psycopg.connect(db_url, autocommit=True) as db:
        yield Row(db_url, db)


@pytest.mark.parametrize("seed", range(4))
async def test_the_statement_does_what_the_domain_says(row: Row, seed: int) -> None:
    """150 reports at odd moments, the same to the row and to the model: the same views come back."""
    row.stop_clock()
    chance = random.Random(seed)
    declared = [Limits(), Limits(), Limits(1200.0), Limits(240.0, 9000.0)][seed]
    model = ModelAccount(lambda: row.shown)
    theirs = model.worker("w")
    async with workers(row.url, "w") as (ours,):
        for _ in range(150):
            row.advance(chance.choice([0.0, 0.01, 0.3, 1.0, 1.0, 7.0]))
            report = a_report(chance, declared)
            assert_alike(await ours.sync(report), await theirs.sync(report))
    assert row.one("cuts") > 5


@pytest.mark.parametrize("seed", range(4))
async def test_the_breaker_goes_the_way_of_the_domains(row: Row, seed: int) -> None:
    """Two workers make any move at any time, on the row and on the model."""
    row.stop_clock()
    chance = random.Random(seed)
    model = ModelAccount(lambda: row.shown)
    moves: list[Callable[[AccountPort], Awaitable[None]]] = [
        lambda port: port.open_breaker(DOWN),
        lambda port: port.open_breaker(Failure("provider_timeout", 0.9, 30.0)),
        lambda port: port.begin_probe(),
        lambda port: port.begin_probe(),
        lambda port: port.probe_succeeded(),
        lambda port: port.probe_failed(DOWN),
        lambda port: port.probe_unused(),
    ]
    states = set()
    async with workers(row.url, "w0", "w1") as stores:
        ports = [model.worker("w0"), model.worker("w1")]
        for _ in range(150):
            row.advance(chance.choice([0.0, 1.0, 5.0, 20.0, 95.0]))
            worker, move = chance.randrange(2), chance.choice(moves)
            await move(stores[worker])
            await move(ports[worker])
            view = await stores[0].look()
            assert_alike(view, await ports[0].look())
            states.add(view.breaker.state)
    assert states == set(BreakerState)


async def test_one_of_many_gets_the_probe(row: Row) -> None:
    row.stop_clock()
    async with workers(row.url, *(f"w{number}" for number in range(6))) as stores:
        await asyncio.gather(*(store.open_breaker(DOWN) for store in stores))
        row.advance(10.0)
        await asyncio.gather(*(store.begin_probe() for store in stores))
        assert row.one("times_opened") == 1
        prober = row.one("prober")
        await asyncio.gather(*(store.probe_succeeded() for store in stores if store.worker != prober))
        assert row.one("breaker_state") == "half_open"
        await next(store for store in stores if store.worker == prober).probe_succeeded()
    kinds = [kind for kind, _ in row.events()]
    assert kinds == ["opened", "half_open", "closed"]


async def test_time_stands_still_while_it_is_open(row: Row) -> None:
    row.stop_clock()
    ((since,),) = row.db.execute("SELECT assay.assay_now() + interval '10 seconds'").fetchall()

    def stood_still() -> float:
        ((seconds,),) = row.db.execute("SELECT assay.breaker_open_seconds('v:test', %s)", (since,)).fetchall()
        return float(seconds)

    async with workers(row.url, "w") as (store,):
        await store.open_breaker(DOWN)
        row.advance(100.0)
        assert stood_still() == pytest.approx(90.0)
        await store.begin_probe()
        await store.probe_failed(DOWN)
        row.advance(100.0)
        assert stood_still() == pytest.approx(190.0)
        await store.begin_probe()
        await store.probe_succeeded()
        row.advance(1000.0)
        assert stood_still() == pytest.approx(190.0)
        await store.open_breaker(DOWN)
        row.advance(5.0)
        assert stood_still() == pytest.approx(195.0)


async def test_two_workers_at_once_book_no_time_twice(row: Row) -> None:
    """Spans of concurrent bookings follow one another on the timeline."""
    spans: list[tuple[float, float, int]] = []

    async def book(store: AccountStore) -> None:
        for _ in range(40):
            view = await store.sync(AccountReport(declared=Limits(60_000.0), ask=Ask(1000, 1000.0)))
            assert view.booking is not None
            end = view.booking.booked_until.timestamp()
            spans.append((end - view.booking.grant.seconds, end, view.booking.grant.requests))

    started = time.time()
    async with workers(row.url, "w0", "w1") as stores:
        await asyncio.gather(*(book(store) for store in stores))
    spans.sort()
    for (_, end, _), (begin, _, _) in itertools.pairwise(spans):
        assert begin >= end - 1e-4
    booked = sum(requests for *_, requests in spans)
    assert booked <= 980 * (max(end for _, end, _ in spans) - started + 1)


async def test_what_was_given_back_can_be_booked_again(row: Row) -> None:
    row.stop_clock()
    async with workers(row.url, "w0", "w1") as (one, two):
        report = AccountReport(declared=Limits(60.0), ask=Ask(1, 10.0))
        first = (await one.sync(report)).booking
        assert first is not None
        await one.give_back(first, 1, 10.0)
        second = (await two.sync(report)).booking
        assert second is not None
        assert second.grant.starts_in == 0.0
        third = (await one.sync(report)).booking
        assert third is not None
        await two.give_back(second, 1, 10.0)
        fourth = (await two.sync(report)).booking
        assert fourth is not None
        assert fourth.grant.starts_in > third.grant.starts_in


async def test_what_was_not_heard_for_an_hour_is_forgotten(row: Row) -> None:
    row.stop_clock()
    async with workers(row.url, "w") as (store,):
        await store.sync(AccountReport(stated=Limits(600.0)))
        row.advance(3000.0)
        assert (await store.sync(AccountReport())).limits == Limits(588.0)
        row.advance(700.0)
        view = await store.sync(AccountReport())
        assert (view.limits, view.stated) == (Limits(), Limits())
    assert row.events() == [("limit_learned", "w")]


async def test_an_account_that_slept_for_days_wakes(row: Row) -> None:
    """What fades with time becomes nothing, not an error: PostgreSQL refuses results too small for it."""
    row.stop_clock()
    async with workers(row.url, "w") as (store,):
        await store.sync(AccountReport(answered=100))
        for seconds in (600.0, 7 * 86_400.0, 1.0):
            row.advance(seconds)
            await store.sync(AccountReport())
        assert row.one("answered") == 0
        await store.sync(AccountReport(answered=3))
        assert row.one("answered") == 3


async def test_events_are_few_and_stay(row: Row) -> None:
    row.stop_clock()
    async with workers(row.url, "w") as (store,):
        for _ in range(100):
            row.advance(2.0)
            await store.sync(AccountReport(stated=Limits(6000.0), push=Push.REFUSED))
    kinds = [kind for kind, _ in row.events()]
    assert kinds.count("limit_learned") == 1
    assert kinds.count("throttled") == 4
    with pytest.raises(psycopg.Error, match="not allowed"):
        row.db.execute("DELETE FROM assay.account_events")


@pytest.mark.parametrize(
    "wrong",
    [
        "breaker_state = 'open'",
        "opened_at = assay.assay_now()",
        "prober = 'w'",
        "limits_source = 'headers'",
        "cuts = 1",
        "requests_per_minute = 5",
    ],
)
async def test_the_table_refuses_what_contradicts_itself(row: Row, wrong: str) -> None:
    async with workers(row.url, "w"):
        with pytest.raises(psycopg.errors.CheckViolation):
            row.db.execute(f"UPDATE assay.vendor_accounts SET {wrong}".encode())


async def test_a_worker_that_is_stopped_holds_no_lock(row: Row) -> None:
    """Its reply never comes, as if it were stopped: the other worker goes on at once."""
    with proxied(row.url) as proxy:
        async with workers(row.url, "w1") as (other,), workers(proxy.url, "w0") as (stopped,):
            await stopped.sync(AccountReport())
            proxy.trouble.silent = True
            hanging = asyncio.create_task(stopped.sync(AccountReport(ask=Ask(1, 1.0), declared=Limits(60.0))))
            await asyncio.sleep(0)
            async with asyncio.timeout(10):
                await other.sync(AccountReport())
            hanging.cancel()
            proxy.trouble.silent = False
            await asyncio.gather(hanging, return_exceptions=True)


async def test_a_database_that_is_away_is_a_connection_error(row: Row) -> None:
    async with workers(row.url, "w") as (store,):
        name = psycopg.conninfo.conninfo_to_dict(row.url)["dbname"]
        row.db.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                       "WHERE datname = %s AND pid <> pg_backend_pid()", (name,))  # fmt: skip
        # One broken connection is not an outage.
        await store.sync(AccountReport())
    with pytest.raises(ConnectionError):
        await store.sync(AccountReport())
