"""Flow control of one worker: when a call may go out, and what its end teaches.

All workers of a vendor account share its limits, its pace and its circuit breaker through PostgreSQL
(`AccountPort`). This class keeps what one worker knows of them and hands out tickets; `AccountLink` speaks
with the account. A call in an account without limits needs neither an await nor the database.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Final

from assay.domain.account import AccountReport, AccountView
from assay.domain.breaker import ENDS_OF_CODES, CallEnd, Failure
from assay.domain.concurrency import RefusalShare, Window
from assay.domain.failures import ProviderError
from assay.domain.pacing import Limits
from assay.domain.rate_limits import RateLimits
from assay.domain.retry_budget import RetryBudget
from assay.pipeline.flow_findings import Findings
from assay.pipeline.flow_gate import Gate
from assay.pipeline.flow_link import AccountLink, Callbacks
from assay.pipeline.flow_pace import Pace
from assay.pipeline.flow_settings import FlowSettings
from assay.pipeline.flow_ticket import FREE, BreakerOpen, Ticket, Waiter
from assay.ports import AccountPort, ModelResponse

# The first call goes alone, so that a new account's limits are known before the others; not for longer.
_SCOUT_SECONDS: Final = 5.0
_MOST_LOOKED_AT: Final = 64


def _nothing(*_: object) -> None:
    """For those whom nobody listens to."""


class Flow:
    """Tickets for calls. Not thread-safe: one event loop. Without a port nothing is limited but `retries`.

    `on_room` is called when more attempts may be started, after `limit` was below the concurrency;
    `on_change(what, why)` when the breaker opened or closed (`breaker_opened`, `breaker_closed`), limits
    became known (`limit_learned`) or the vendor refused more than its rate (`throttled`).
    """

    def __init__(
        self,
        port: AccountPort | None,
        settings: FlowSettings,
        *,
        clock: Callable[[], float],
        chance: Callable[[], float],
        on_room: Callable[[], None] = _nothing,
        on_change: Callable[[str, str | None], None] = _nothing,
    ) -> None:
        self._settings, self._clock, self._chance = settings, clock, chance
        self.on_room, self.on_change = on_room, on_change
        self._budget = RetryBudget(
            clock(), share=settings.retry_share, per_second=settings.retries_per_second,
            most=settings.most_retries,
        )  # fmt: skip
        self._window = Window(settings.concurrency, first=settings.first_window)
        self._refusals = RefusalShare()
        self._pace = Pace(settings.pace, clock())
        self._findings = Findings(settings.declared)
        self._link = None if port is None else AccountLink(port, self._callbacks(), chance)
        self._hurry: Callable[[], None] = _nothing if self._link is None else self._link.wanted
        self._gate = Gate(
            settings.breaker, "" if port is None else port.worker, moved=self._breaker_moved,
            send=_nothing if self._link is None else self._link.send,
        )  # fmt: skip
        self._waiters: deque[Waiter] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._failure: BaseException | None = None
        self._scouting = self._denied = self._draining = False
        # Whether a ticket needs no thought: no account, or one that limits nothing and answers.
        self._free = True
        self._in_flight, self._started_at = 0, clock()

    async def start(self) -> None:
        """Learn how the account stands. Raises `ConnectionError` when the database is away."""
        if self._link is None:
            return
        self._scouting = True
        self._choose_path()
        await self._link.start()

    async def aclose(self) -> None:
        """Give back what is not used; whoever still waits for a ticket is cancelled."""
        if self._timer is not None:
            self._timer.cancel()
        self.cancel_waiting()
        if self._link is None:
            return
        if self._gate.has_probe:
            self._gate.probe_unused(self._clock())
        await self._link.aclose(self._pace.surrender(self._clock()))

    def cancel_waiting(self) -> None:
        """The worker drains: whoever waits for a ticket, now or later, is cancelled."""
        self._draining = True
        while self._waiters:
            self._waiters.popleft().ticket.cancel()

    @property
    def is_open(self) -> bool:
        """Whether no call goes out because the vendor does not answer: nothing should be claimed."""
        return not self._gate.closed and not self._gate.has_probe

    @property
    def seconds_until_probe(self) -> float:
        """Until somebody may try whether the vendor is back; 0 while it answers."""
        return self._gate.seconds_until_probe(self._clock())

    def limit(self) -> int:
        """How many attempts there may be now, those that wait for a ticket included."""
        if self._link is None:
            return self._settings.concurrency
        limit = self._window.size
        if not self._gate.closed:
            limit = self._in_flight + self._gate.has_probe
        elif self._scouting:
            limit = 1
        elif self._pace.on:
            limit = min(limit, self._in_flight + self._pace.calls_within(self._settings.ahead))
        self._denied = limit < self._settings.concurrency
        return limit

    def room(self, running: int) -> int:
        """How many more attempts may be started while so many are under way."""
        return max(self.limit() - running, 0)

    def retries_allowed(self) -> int:
        """How many parked tasks may be claimed now for another try."""
        return max(self._budget.allowed(self._clock()), 0)

    def note_calls(self, *, first: int = 0, retries: int = 0) -> None:
        """So many tasks were claimed for their first call, so many for another try."""
        self._budget.called(first=first, retries=retries)

    def try_admit(self, size: int = 0, *, retry: bool = False) -> Ticket | None:
        """A ticket for a call of about `size` tokens (0: no idea) if there is one now."""
        if self._free:
            if self._link is None:
                return FREE
            self._in_flight += 1
            return Ticket(self._clock(), size, retry)
        return None if self._waiters else self._try(size, retry)

    async def admit(self, size: int = 0, *, retry: bool = False) -> Ticket:
        """A ticket, as soon as there is one. Raises `BreakerOpen` when the vendor does not answer."""
        ticket = self.try_admit(size, retry=retry)
        if ticket is not None:
            return ticket
        if self._failure is not None:
            raise self._failure
        if not self._gate.closed:
            raise BreakerOpen(self.seconds_until_probe)
        if self._draining:
            raise asyncio.CancelledError
        waiter = Waiter(asyncio.get_running_loop().create_future(), size, retry)
        self._waiters.append(waiter)
        self._pump()
        try:
            return await waiter.ticket
        except asyncio.CancelledError:
            if waiter.ticket.done() and not waiter.ticket.cancelled() and waiter.ticket.exception() is None:
                self.give_back(waiter.ticket.result())
            raise

    def give_back(self, ticket: Ticket) -> None:
        """The call was not made, or nobody will hear how it ended."""
        if ticket is FREE:
            return
        self._in_flight -= 1
        if ticket.paced:
            self._pace.put_back(ticket.tokens)
        if ticket.probe:
            self._gate.probe_unused(self._clock())
        self._pump()

    def _try(self, size: int, retry: bool) -> Ticket | None:
        """A ticket where it takes thought: an open breaker, a first call, a pace."""
        now = self._clock()
        if not self._gate.closed:
            return self._ticket(now, size, retry, probe=True) if self._gate.take_probe() else None
        if self._failure is not None or (self._scouting and self._in_flight > 0):
            return None
        if not self._pace.on:
            self._findings.unbooked += 1
            return self._ticket(now, size, retry)
        tokens = self._pace.estimate.of(size)
        wait = self._pace.take(now, tokens)
        if wait is None:
            self._hurry()
            return None
        if wait > 0:
            self._wake_in(wait)
            return None
        if self._pace.runs_low(now):
            self._hurry()
        return self._ticket(now, size, retry, tokens=tokens)

    def _ticket(
        self, now: float, size: int, retry: bool, *, tokens: float | None = None, probe: bool = False
    ) -> Ticket:
        self._in_flight += 1
        self._pace.counted()
        ticket = Ticket(now, size, retry)
        ticket.paced, ticket.tokens, ticket.probe = tokens is not None, tokens or 0.0, probe
        return ticket

    def _pump(self) -> None:
        """Hand tickets to those who wait, in their order."""
        waiting = len(self._waiters)
        while self._waiters:
            waiter = self._waiters[0]
            if not waiter.ticket.done():
                ticket = self._try(waiter.size, waiter.retry)
                if ticket is None:
                    break
                waiter.ticket.set_result(ticket)
            self._waiters.popleft()
        if len(self._waiters) < waiting:
            self._say_room()

    def _say_room(self) -> None:
        if self._denied:
            self._denied = False
            self.on_room()

    def _wake_in(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._pump)

    def answered(self, ticket: Ticket, response: ModelResponse) -> None:
        """The call brought an answer to judge."""
        used = response.usage
        self.settle(ticket, "success", input_tokens=used.input_tokens, output_tokens=used.output_tokens,
                    rate_limits=response.rate_limits)  # fmt: skip

    def failed(self, ticket: Ticket, failure: ProviderError) -> None:
        """The call brought none."""
        self.settle(ticket, ENDS_OF_CODES.get(failure.code, "other"), rate_limits=failure.rate_limits,
                    retry_after=failure.retry_after, reason=failure.code)  # fmt: skip

    def settle(
        self,
        ticket: Ticket,
        end: CallEnd,
        *,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        rate_limits: RateLimits | None = None,
        retry_after: float | None = None,
        reason: str | None = None,
    ) -> None:
        """A call has ended. `retry_after` in seconds, `reason` the failure's code."""
        if ticket is FREE:
            return
        now = self._clock()
        if end == "success":
            self._findings.answered += 1
            self._gate.succeeded(now)
            self._refusals.answered(ticket.sent_at, self._pace.cut_at)
            if self._window.succeeded(self._in_flight):
                self._say_room()
            self._pace.took(now - ticket.sent_at)
            if ticket.retry:
                self._budget.retry_succeeded()
            if input_tokens is not None:
                self._used(ticket, input_tokens, output_tokens or 0)
        self._in_flight -= 1
        if rate_limits is not None:
            self._heard(now, rate_limits)
        if end != "success":
            self._not_answered(ticket, now, end, Failure(reason or end, self._chance(), retry_after))
        elif ticket.probe:
            self._gate.probe_ended(now, end, Failure(end, 0.0))
        if self._scouting:
            self._end_scouting()
        if self._waiters:
            self._pump()

    def _end_scouting(self) -> None:
        self._scouting = False
        self._choose_path()
        self._say_room()

    def _heard(self, now: float, told: RateLimits) -> None:
        if self._findings.heard(now, told, self._pace.estimate.input_share):
            self._keep_pace()
            self._hurry()

    def _used(self, ticket: Ticket, input_tokens: int, output_tokens: int) -> None:
        believed = self._pace.estimate.learn(ticket.size, input_tokens, output_tokens)
        if believed and ticket.paced:
            self._findings.token_error += input_tokens + output_tokens - ticket.tokens

    def _not_answered(self, ticket: Ticket, now: float, end: CallEnd, failure: Failure) -> None:
        self._findings.answered += end != "rate_limited"
        if end == "rate_limited":
            self._pushed_back(ticket, now, failure.retry_after)
        elif end == "other":
            self._gate.succeeded(now)
        else:
            if end == "overloaded" and self._refusals.refused(ticket.sent_at, self._pace.cut_at):
                self._window.pushed_back(now, ticket.sent_at)
            self._gate.failed(now, failure)
        if ticket.probe:
            self._gate.probe_ended(now, end, failure)

    def _pushed_back(self, ticket: Ticket, now: float, retry_after: float | None) -> None:
        if ticket.paced:
            self._findings.token_error -= ticket.tokens
        paced = self._pace.on and self._findings.stated == Limits()
        if not self._refusals.refused(ticket.sent_at, self._pace.cut_at, paced=paced):
            return  # one of many: its record waits as told; a stated limit stays the truth
        self._window.pushed_back(now, ticket.sent_at, needed=self._pace.needed)
        self._pace.hold(now + (retry_after or 0.0))
        if ticket.sent_at > self._pace.cut_at:
            self._findings.refused(retry_after)
            self._refusals.acted_on()
        if self._pace.on:
            self._hurry()
        self._keep_pace()

    def _keep_pace(self) -> None:
        """From here on this worker sends nothing that the account has not booked."""
        self._pace.on = True
        self._choose_path()

    def _choose_path(self) -> None:
        self._free = self._link is None or not (
            self._pace.on or self._scouting or self._failure is not None or not self._gate.closed
        )

    def _callbacks(self) -> Callbacks:
        return Callbacks(
            self._tell, self._findings.not_told, self._adopt,
            lambda: self._gate.wants_probe(self._clock()), self._pause, self._broke_down,
        )  # fmt: skip

    def _pause(self) -> float:
        every = self._settings.sync_every * (0.75 + 0.5 * self._chance())
        return every if self._gate.closed else min(every, max(self.seconds_until_probe, 0.05))

    def _tell(self) -> AccountReport | None:
        """What to tell the account; None while its breaker is open: nobody calls, nothing changes."""
        now = self._clock()
        if self._scouting and now - self._started_at > _SCOUT_SECONDS:
            self._end_scouting()
        if not self._gate.closed:
            return None
        sizes = [waiter.size for waiter in islice(self._waiters, _MOST_LOOKED_AT)]
        return self._findings.report(now, self._pace.ask(now, len(self._waiters), sizes))

    def _adopt(self, view: AccountView, with_breaker: bool) -> None:
        now = self._clock()
        if self._pace.adopt(view, now, news=self._findings.news is not None):
            self.on_change("throttled", None)
        if view.stated != self._findings.stated:
            self._findings.stated = view.stated
            self.on_change("limit_learned", None)
        self._scouting = self._scouting and not self._pace.on
        if with_breaker:
            self._gate.adopt(view.breaker.shifted(now), now)
        self._choose_path()
        self._pump()
        if self._gate.closed or self._gate.has_probe:
            self._say_room()

    def _breaker_moved(self, what: str, why: str | None) -> None:
        self._choose_path()
        if not self._gate.closed:
            self._refuse_all(BreakerOpen(self.seconds_until_probe))
        self.on_change(what, why)
        if self._gate.closed:
            self._say_room()

    def _broke_down(self, failure: BaseException) -> None:
        self._failure = failure
        self._choose_path()
        self._refuse_all(failure)

    def _refuse_all(self, refusal: BaseException) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.ticket.done():
                waiter.ticket.set_exception(refusal)
