"""The account's row: it follows the rules of the domain to the letter, also with two workers at once."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from psycopg.rows import TupleRow

from account_model import ModelAccount
from assay.adapters.postgres.account_store import AccountStore
from assay.adapters.postgres.session import make_pool
from assay.domain.account import AccountReport, AccountView
from assay.domain.breaker import BreakerState, Failure
from assay.domain.pacing import Ask, Limits
from assay.domain.permitted_rate import Push
from assay.ports import AccountPort
from tcp_proxy import proxied

DOWN = Failure("provider_connection", 0.25)


@dataclass
class Row:
    """The database as a test looks at it; its clock is moved by hand once stopped."""

    url: str
    db: psycopg.Connection[TupleRow]
    shown: float = 0.0

    def stop_clock(self) -> None:
        self.db.execute(
            "UPDATE assay.instance SET clock_shown = assay.assay_now(), clock_real = clock_timestamp(), "
            "clock_scale = 0"
        )

    def advance(self, seconds: float) -> None:
        self.shown += seconds
        self.db.execute(
            "UPDATE assay.instance SET clock_shown = clock_shown + make_interval(secs => %s)", (seconds,)
        )

    def one(self, column: str) -> Any:
        query = psycopg.sql.SQL("SELECT {} FROM assay.vendor_accounts").format(psycopg.sql.Identifier(column))
        ((value,),) = self.db.execute(query).fetchall()
        return value

    def events(self) -> list[tuple[str, str]]:
        return [
            (kind, worker)
            for kind, worker in self.db.execute(
                "SELECT kind, worker FROM assay.account_events ORDER BY event_id"
            )
        ]


@pytest.fixture
def row(db_url: str) -> Any:
    with psycopg.connect(db_url, autocommit=True) as db:
        yield Row(db_url, db)


@asynccontextmanager
async def workers(url: str, *names: str) -> AsyncIterator[list[AccountStore]]:
    """Stores of one account, each with a pool of its own, as in processes of their own."""
    pools = [make_pool(url, size=2) for _ in names]
    for pool in pools:
        await pool.open()
    try:
        stores = [
            AccountStore(pool, account="v:test", worker=name) for pool, name in zip(pools, names, strict=True)
        ]
        await stores[0].enter()
        yield stores
    finally:
        for pool in pools:
            await pool.close()


def near(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return one == pytest.approx(other, rel=1e-6, abs=5e-5)


def assert_alike(row: AccountView, model: AccountView) -> None:
    if model.limits is not None:
        assert row.limits is not None
        assert near(row.limits.requests_per_minute, model.limits.requests_per_minute)
        assert near(row.limits.tokens_per_minute, model.limits.tokens_per_minute)
    assert row.stated == model.stated
    assert row.cuts == model.cuts
    assert near(row.hold_seconds, model.hold_seconds)
    ours, theirs = row.breaker, model.breaker
    assert (ours.state, ours.prober, ours.streak, ours.reason) == (
        theirs.state, theirs.prober, theirs.streak, theirs.reason
    )  # fmt: skip
    for name in ("until", "opened_at", "closed_at"):
        assert near(getattr(ours, name), getattr(theirs, name)), name
    assert (row.booking is None) == (model.booking is None)
    if row.booking is not None and model.booking is not None:
        assert row.booking.grant.requests == model.booking.grant.requests
        for name in ("starts_in", "tokens", "request_seconds", "token_seconds"):
            assert near(getattr(row.booking.grant, name), getattr(model.booking.grant, name)), name


def a_report(chance: random.Random, declared: Limits) -> AccountReport:
    asked = chance.choice([0, 0, 1, 3, 50])
    push = chance.choices([Push.NONE, Push.LOW, Push.REFUSED], [8, 1, 2])[0]
    return AccountReport(
        declared=declared,
        stated=chance.choice([Limits(), Limits(), Limits(600.0), Limits(900.0, 40_000.0)])
        if declared == Limits()
        else Limits(),
        answered=chance.randrange(60),
        push=push,
        retry_after=chance.choice([None, 0.5, 3.0]) if push is Push.REFUSED else None,
        token_error=chance.uniform(-50, 200),
        unbooked=chance.choice([0, 0, 4, 100]),
        ask=Ask(asked, asked * chance.uniform(10, 500)),
    )


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
