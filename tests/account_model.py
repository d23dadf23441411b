"""A vendor account in memory, made of the rules of the domain alone: for tests of the flow, and as the model
that the account's row in PostgreSQL is compared with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from assay.domain.account import AccountReport, AccountView, Booking
from assay.domain.breaker import Breaker, BreakerRules, Failure
from assay.domain.pacing import Limits, PaceRules, Timeline, reserve, settle
from assay.domain.permitted_rate import Permitted, Push, adjust, count

_EPOCH = datetime(2030, 1, 1, tzinfo=UTC)


@dataclass
class ModelAccount:
    """What all workers share. `away`: the database does not answer. `syncs` and `looks` count."""

    clock: Callable[[], float]
    breaker_rules: BreakerRules = field(default_factory=BreakerRules)
    pace: PaceRules = field(default_factory=PaceRules)
    away: bool = False
    syncs: int = 0
    looks: int = 0
    moves: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        now = self.clock()
        self.line = Timeline(now, now, now)
        self.rate = Permitted(grown_at=now, counted_at=now, since=now)
        self.breaker = Breaker()
        self.stated = Limits()
        self.cuts = 0

    def worker(self, name: str) -> ModelPort:
        return ModelPort(self, name)

    def view(self, limits: Limits | None, booking: Booking | None = None) -> AccountView:
        now = self.clock()
        return AccountView(
            limits,
            self.stated,
            self.cuts,
            max(self.line.hold_until - now, 0.0),
            self.breaker.shifted(-now),
            booking,
        )

    def sync(self, report: AccountReport) -> AccountView:
        now = self.clock()
        told = report.stated
        self.stated = Limits(
            told.requests_per_minute or self.stated.requests_per_minute,
            told.tokens_per_minute or self.stated.tokens_per_minute,
        )
        stated = self.used(self.stated.within(report.declared))
        before = self.rate.cut_at
        self.rate = adjust(
            count(self.rate, now, report.answered), now, report.push, stated=stated.requests_per_minute,
            booked_until=max(self.line.next_request_at, self.line.next_token_at),
        )  # fmt: skip
        self.cuts += report.push is not Push.NONE and self.rate.cut_at != before
        limits = stated if self.rate.rate is None else stated.within(Limits(self.rate.rate))
        self.line = Timeline(
            self.line.next_request_at, self.line.next_token_at,
            max(self.line.hold_until, now + (report.retry_after or 0.0)),
        )  # fmt: skip
        self.line = settle(self.line, now, limits, unbooked=report.unbooked, token_error=report.token_error)
        self.line, grant = reserve(self.line, now, limits, report.ask, self.pace)
        booking = None
        if grant is not None:
            booking = Booking(grant, _EPOCH + timedelta(seconds=self.line.next_request_at))
        return self.view(limits, booking)

    def used(self, limits: Limits) -> Limits:
        requests, tokens = limits.requests_per_minute, limits.tokens_per_minute
        return Limits(
            None if requests is None else requests * self.pace.use,
            None if tokens is None else tokens * self.pace.use,
        )


class ModelPort:
    """The account as one worker sees it."""

    def __init__(self, account: ModelAccount, name: str) -> None:
        self._account = account
        self._name = name

    @property
    def account(self) -> str:
        return "v:model"

    @property
    def worker(self) -> str:
        return self._name

    def _reach(self, move: str | None = None) -> ModelAccount:
        if self._account.away:
            raise ConnectionError("away")
        if move is not None:
            self._account.moves.append(move)
        return self._account

    async def enter(self) -> None:
        self._reach()

    async def look(self) -> AccountView:
        account = self._reach()
        account.looks += 1
        return account.view(None)

    async def sync(self, report: AccountReport) -> AccountView:
        account = self._reach()
        account.syncs += 1
        return account.sync(report)

    async def give_back(self, booking: Booking, requests: int, tokens: float) -> None:
        account = self._reach("give_back")
        line, grant = account.line, booking.grant
        if booking.booked_until == _EPOCH + timedelta(seconds=line.next_request_at):
            account.line = Timeline(
                line.next_request_at - requests * grant.request_seconds,
                line.next_token_at - tokens * grant.token_seconds,
                line.hold_until,
            )

    async def open_breaker(self, failure: Failure) -> None:
        account = self._reach("open_breaker")
        account.breaker = account.breaker.trip(account.clock(), account.breaker_rules, failure)

    async def begin_probe(self) -> None:
        account = self._reach("begin_probe")
        account.breaker = account.breaker.begin_probe(account.clock(), account.breaker_rules, self._name)

    async def probe_succeeded(self) -> None:
        account = self._reach("probe_succeeded")
        account.breaker = account.breaker.probe_succeeded(account.clock(), self._name)

    async def probe_failed(self, failure: Failure) -> None:
        account = self._reach("probe_failed")
        account.breaker = account.breaker.probe_failed(
            account.clock(), account.breaker_rules, self._name, failure
        )

    async def probe_unused(self) -> None:
        account = self._reach("probe_unused")
        account.breaker = account.breaker.probe_unused(account.clock(), self._name)
