"""Vendor accounts: the pace and the breaker that all workers of an account share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from psycopg.pq import TransactionStatus

from assay.adapters.postgres.queries import queries
from assay.adapters.postgres.session import Connection, DatabaseUnavailable, Pool, transact
from assay.domain import permitted_rate as permitted
from assay.domain.account import AccountReport, AccountView, Booking
from assay.domain.breaker import Breaker, BreakerRules, BreakerState, Failure
from assay.domain.pacing import FURTHEST, IN_LINE, LONGEST_HOLD, Grant, Limits, PaceRules

_RATE_RULES: Final = {
    "memory": permitted.MEMORY,
    "cut_every": permitted.CUT_EVERY,
    "cut": permitted.CUT,
    "low_cut": permitted.LOW_CUT,
    "most_cut": permitted.MOST_CUT,
    "of_answered": permitted.OF_ANSWERED,
    "least": permitted.LEAST,
    "first": permitted.FIRST,
    "most": permitted.MOST,
    "to_stated": permitted.TO_STATED,
    "unknown": permitted.UNKNOWN,
    "far": permitted.FAR,
    "near": permitted.NEAR,
    "near_from": permitted.NEAR_FROM,
    "near_to": permitted.NEAR_TO,
    "patience": permitted.PATIENCE,
    "longest_step": permitted.LONGEST_STEP,
    "nearly_now": permitted.NEARLY_NOW,
    "not_felt": permitted.NOT_FELT,
}
# More than this many says no more about a minute, and would not fit PostgreSQL's intervals.
_MOST_TOKENS: Final = 1e12


class AccountStore:
    """One account as one worker sees it. Every method raises `ConnectionError` while PostgreSQL is away.

    A reply that is lost on the way costs permits, never an allowance twice: the worker that did not hear of
    its booking does not use it.
    """

    def __init__(
        self,
        pool: Pool,
        *,
        account: str,
        worker: str,
        breaker: BreakerRules | None = None,
        pace: PaceRules | None = None,
    ) -> None:
        self._pool = pool
        self._worker = worker
        self._account = account
        rules, pace = breaker or BreakerRules(), pace or PaceRules()
        self._names = {"account": account, "worker": worker}
        self._breaker = {"base": rules.base, "cap": rules.cap, "calm": rules.calm, "lease": rules.probe_lease}
        self._pace = {
            "use": pace.use, "chunk": pace.chunk, "horizon": pace.horizon, "slack": pace.slack,
            "burst": pace.burst, "furthest": FURTHEST, "in_line": IN_LINE,
        }  # fmt: skip
        self._longest = {
            "longest": max(rules.cap, rules.probe_lease, LONGEST_HOLD),
            "longest_hold": LONGEST_HOLD,
        }
        self._sql = queries("accounts")

    @property
    def account(self) -> str:
        """The account's name."""
        return self._account

    @property
    def worker(self) -> str:
        """The name by which the account knows this worker's probe."""
        return self._worker

    async def enter(self) -> None:
        """Make the account's row where it has none."""
        await self._run("enter_account")

    async def look(self) -> AccountView:
        """The account as it stands, without `limits`."""
        row = await self._seen("look_at_account")
        return replace(_view(row), limits=None)

    async def sync(self, report: AccountReport) -> AccountView:
        """Tell what was seen and book what is asked for."""
        asked = report.ask.requests
        row = await self._seen(
            "sync_account",
            stated_requests=report.stated.requests_per_minute,
            stated_tokens=report.stated.tokens_per_minute,
            declared_requests=report.declared.requests_per_minute,
            declared_tokens=report.declared.tokens_per_minute,
            answered=report.answered,
            push=int(report.push),
            retry_after=report.retry_after,
            unbooked=report.unbooked,
            token_error=max(-_MOST_TOKENS, min(report.token_error, _MOST_TOKENS)),
            asked=asked,
            each=report.ask.tokens / asked if asked else 0.0,
            **self._pace,
            **_RATE_RULES,
        )
        return _view(row)

    async def give_back(self, booking: Booking, requests: int, tokens: float) -> None:
        """Permits that will not be used and lie ahead; nothing happens once somebody booked after them."""
        grant = booking.grant
        await self._run(
            "give_back",
            request_seconds=requests * grant.request_seconds,
            token_seconds=tokens * grant.token_seconds,
            booked_until=booking.booked_until,
        )

    async def open_breaker(self, failure: Failure) -> None:
        """Closed → open; nothing happens where another worker was first."""
        await self._run("open_breaker", **_told(failure), **self._breaker)

    async def begin_probe(self) -> None:
        """Open and due → half open, with this worker as the prober; `look` tells who it is."""
        await self._run("begin_probe", **self._breaker)

    async def probe_succeeded(self) -> None:
        """Half open → closed, where this worker is the prober."""
        await self._run("probe_succeeded")

    async def probe_failed(self, failure: Failure) -> None:
        """Half open → open for longer, where this worker is the prober."""
        await self._run("probe_failed", **_told(failure), **self._breaker)

    async def probe_unused(self) -> None:
        """Half open → open and due at once, where this worker is the prober."""
        await self._run("probe_unused")

    async def _seen(self, name: str, **parameters: Any) -> list[Any]:
        """The account's row; its moments are mended first where the database's clock has stepped back."""
        parameters |= self._longest
        rows = await self._run(name, **parameters)
        if not rows:
            await self._run("mend_account", **self._longest)
            rows = await self._run(name, **parameters)
        if not rows:
            raise ConnectionError(f"The account {self._account!r} has no row, or the database's clock leaps.")
        return list(rows[0])

    async def _run(self, name: str, **parameters: Any) -> list[tuple[Any, ...]]:
        async def work(connection: Connection) -> list[tuple[Any, ...]]:
            # A transaction of several round trips would keep the account's row locked while this process is
            # stopped; the workers of an account must not depend on one another's health.
            await connection.set_autocommit(True)
            try:
                cursor = await connection.execute(self._sql[name], self._names | parameters)
                return await cursor.fetchall() if cursor.description is not None else []
            finally:
                if connection.info.transaction_status is TransactionStatus.IDLE:
                    await connection.set_autocommit(False)
                else:
                    await connection.close()

        try:
            return await transact(self._pool, work, patience_seconds=0.0)
        except DatabaseUnavailable as gone:
            raise ConnectionError(str(gone)) from None


def _told(failure: Failure) -> dict[str, Any]:
    return {"reason": failure.reason, "chance": failure.chance, "retry_after": failure.retry_after}


def _view(row: list[Any]) -> AccountView:
    (request_rate, token_rate, requests, tokens, cuts, hold, state, until, prober, streak, reason, opened,
     closed, starts_in, calls, request_seconds, token_seconds, each, booked_until) = row  # fmt: skip
    booking = None
    if calls is not None:
        booking = Booking(
            Grant(max(starts_in, 0.0), calls, calls * each, request_seconds, token_seconds), booked_until
        )
    return AccountView(
        limits=Limits(_rate(request_rate), _rate(token_rate)),
        stated=Limits(requests, tokens),
        cuts=cuts,
        hold_seconds=max(hold, 0.0),
        breaker=Breaker(
            BreakerState(state), until=until, prober=prober, streak=streak, reason=reason, opened_at=opened,
            closed_at=closed,
        ),
        booking=booking,
    )  # fmt: skip


def _rate(per_minute: float | None) -> float | None:
    """A used share of a limit of 1 per minute is still 1 per minute."""
    return None if per_minute is None else max(per_minute, 1.0)
