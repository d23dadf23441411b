"""A vendor account in memory, made of the rules of the domain alone: for tests of the flow, and as the model
that the account's row in PostgreSQL is compared with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from assay.domain.account import AccountReport, AccountView, Booking
from assay.domain.breaker import Breaker, BreakerRules, Failure
from assay.domain.pacing import (
    LONGEST_HOLD,
    Limits,
    PaceRules,
    Timeline,
    in_reach,
    reserve,
    settle,
)
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
        self.changed = now

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

    def moved(self, breaker: Breaker) -> None:
        """The breaker's move, where it is one. `changed` goes back in `mend` and `sync` alone."""
        if breaker != self.breaker:
            self.breaker, self.changed = breaker, max(self.changed, self.clock())

    def mend(self) -> None:
        """The clock has stepped back: every moment goes back with it."""
        now, rules = self.clock(), self.breaker_rules
        longest = now + max(rules.cap, rules.probe_lease, LONGEST_HOLD)
        until = self.breaker.until
        if self.changed <= now + 1.0 and (until is None or until <= longest + 1.0):
            return
        back = max(self.changed - now, 0.0)
        line, rate = self.line, self.rate
        self.line = Timeline(line.next_request_at - back, line.next_token_at - back, line.hold_until - back)
        self.rate = replace(
            rate, grown_at=rate.grown_at - back, counted_at=rate.counted_at - back, since=rate.since - back,
            cut_at=None if rate.cut_at is None else rate.cut_at - back,
        )  # fmt: skip
        self.breaker = self.breaker.shifted(-back)
        if self.breaker.until is not None:
            self.breaker = replace(self.breaker, until=min(self.breaker.until, longest))
        self.changed = min(self.changed, now)

    def sync(self, report: AccountReport) -> AccountView:
        self.mend()
        now = self.changed = self.clock()
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
            tokens_stated=stated.tokens_per_minute is not None,
        )  # fmt: skip
        self.cuts += report.push is not Push.NONE and self.rate.cut_at != before
        limits = stated if self.rate.rate is None else stated.within(Limits(self.rate.rate))
        self.line = in_reach(self.line, now, limits)
        self.line = Timeline(
            self.line.next_request_at, self.line.next_token_at,
            max(self.line.hold_until, now + min(report.retry_after or 0.0, LONGEST_HOLD)),
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
        account.mend()
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
            account.changed = max(account.changed, account.clock())

    async def open_breaker(self, failure: Failure) -> None:
        account = self._reach("open_breaker")
        account.moved(account.breaker.trip(account.clock(), account.breaker_rules, failure))

    async def begin_probe(self) -> None:
        account = self._reach("begin_probe")
        account.moved(account.breaker.begin_probe(account.clock(), account.breaker_rules, self._name))

    async def probe_succeeded(self) -> None:
        account = self._reach("probe_succeeded")
        account.moved(account.breaker.probe_succeeded(account.clock(), self._name))

    async def probe_failed(self, failure: Failure) -> None:
        account = self._reach("probe_failed")
        rules = account.breaker_rules
        account.moved(account.breaker.probe_failed(account.clock(), rules, self._name, failure))

    async def probe_unused(self) -> None:
        account = self._reach("probe_unused")
        account.moved(account.breaker.probe_unused(account.clock(), self._name))
