"""The account's row as tests look at it, beside the model that it is compared with."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from psycopg.rows import TupleRow

from assay.adapters.postgres.account_store import AccountStore
from assay.adapters.postgres.session import make_pool
from assay.domain.account import AccountReport, AccountView
from assay.domain.breaker import Failure
from assay.domain.pacing import Ask, Limits
from assay.domain.permitted_rate import Push

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
