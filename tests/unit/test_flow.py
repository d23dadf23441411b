"""The flow of one worker, and of several that share an account made of the domain's rules."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from account_model import ModelAccount
from assay.domain.breaker import BreakerRules, BreakerState, Failure
from assay.domain.failures import ConfigurationError, ConfigurationProviderError, TransientProviderError
from assay.domain.pacing import Limits
from assay.domain.rate_limits import Allowance, RateLimits
from assay.pipeline.flow import Flow
from assay.pipeline.flow_settings import FlowSettings
from assay.pipeline.flow_ticket import FREE, BreakerOpen, Ticket
from assay.pipeline.flow_tokens import TokenEstimate
from assay.ports import ModelResponse, Usage

QUICK = BreakerRules(base=0.2, cap=1.0)
DOWN = TransientProviderError("provider_connection")
ANSWER = ModelResponse("{}", usage=Usage(80, 20))


@dataclass
class Clock:
    """Time of the running loop, and what a test adds to it."""

    added: float = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.added


@dataclass
class Team:
    """Workers of one account."""

    account: ModelAccount
    clock: Clock
    flows: list[Flow]
    changes: list[tuple[str, str | None]]

    @property
    def flow(self) -> Flow:
        return self.flows[0]


@asynccontextmanager
async def team(
    count: int = 1, *, concurrency: int = 32, first_window: int = 16, declared: Limits | None = None
) -> AsyncIterator[Team]:
    clock = Clock()
    rules = FlowSettings(
        concurrency=concurrency, first_window=first_window, declared=declared or Limits(), breaker=QUICK,
        sync_every=0.05,
    )  # fmt: skip
    account = ModelAccount(clock, breaker_rules=QUICK, pace=rules.pace)
    changes: list[tuple[str, str | None]] = []
    flows = [
        Flow(
            account.worker(f"w{number}"), rules, clock=clock, chance=lambda: 0.5,
            on_change=lambda what, why: changes.append((what, why)),
        )
        for number in range(count)
    ]  # fmt: skip
    for flow in flows:
        await flow.start()
    try:
        yield Team(account, clock, flows, changes)
    finally:
        for flow in flows:
            await flow.aclose()


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while True:
            if holds():
                return
            await asyncio.sleep(0.002)


def call(flow: Flow) -> Ticket:
    ticket = flow.try_admit(100)
    assert ticket is not None
    return ticket


def scout(flow: Flow) -> None:
    """The first call of an account, answered without a word about limits."""
    flow.answered(call(flow), ANSWER)


def bring_down(flow: Flow) -> None:
    for _ in range(5):
        flow.failed(call(flow), DOWN)


async def test_without_an_account_everything_goes() -> None:
    flow = Flow(None, FlowSettings(concurrency=4), clock=time.monotonic, chance=lambda: 0.5)
    await flow.start()
    assert flow.room(1) == 3
    ticket = await flow.admit()
    assert ticket is flow.try_admit() is FREE
    flow.failed(ticket, DOWN)
    flow.give_back(ticket)
    assert not flow.is_open
    assert flow.retries_allowed() == 10
    await flow.aclose()


async def test_the_first_call_goes_alone_until_it_is_answered() -> None:
    async with team() as t:
        assert t.flow.room(0) == 1
        first = call(t.flow)
        assert t.flow.try_admit() is None
        second = asyncio.create_task(t.flow.admit())
        t.flow.answered(first, ANSWER)
        t.flow.answered(await second, ANSWER)
        assert t.flow.room(0) == 16


async def test_the_window_opens_with_answers() -> None:
    async with team(concurrency=40) as t:
        scout(t.flow)
        tickets = [call(t.flow) for _ in range(16)]
        for ticket in tickets:
            t.flow.answered(ticket, ANSWER)
        assert 16 < t.flow.room(0) <= 32


async def test_an_account_without_limits_costs_next_to_nothing() -> None:
    async with team() as t:
        scout(t.flow)
        before, best = t.account.syncs, float("inf")
        for _ in range(5):
            started = time.perf_counter()
            for _ in range(2000):
                ticket = t.flow.try_admit(100)
                assert ticket is not None
                t.flow.settle(ticket, "success", input_tokens=80, output_tokens=20)
            best = min(best, (time.perf_counter() - started) / 2000)
        assert t.account.syncs == before
        # About 1.5 microseconds on a free core; the bound leaves room for a busy machine.
        assert best < 10e-6


async def test_limits_of_the_headers_hold_at_once() -> None:
    async with team(concurrency=32) as t:
        limits = RateLimits(Allowance(600, 599, 0.1))
        t.flow.answered(call(t.flow), ModelResponse("{}", usage=Usage(80, 20), rate_limits=limits))
        await until(lambda: ("limit_learned", None) in t.changes)
        started = time.monotonic()
        for _ in range(6):
            t.flow.answered(await t.flow.admit(100), ANSWER)
        # The first call stands on the timeline too; then ten in a second.
        assert time.monotonic() - started >= 0.5
        assert t.account.stated == Limits(600.0)


async def test_room_is_bounded_by_what_may_go_soon() -> None:
    async with team(concurrency=500, declared=Limits(300.0), first_window=500) as t:
        await until(lambda: t.flow.room(0) > 1)
        assert t.flow.room(0) == 10


async def test_a_refusal_holds_all_workers() -> None:
    async with team(2, declared=Limits(6000.0)) as t:
        ticket = await t.flows[0].admit(100)
        t.flows[0].settle(ticket, "rate_limited", retry_after=0.6)
        await until(lambda: t.account.line.hold_until > t.clock() + 0.3)
        held_until = t.account.line.hold_until
        t.flows[1].answered(await t.flows[1].admit(100), ANSWER)
        # Permits that the other worker held already are its own for a moment.
        t.flows[1].answered(await t.flows[1].admit(100), ANSWER)
        t.flows[0].answered(await t.flows[0].admit(100), ANSWER)
        assert t.clock() >= held_until - 0.01


async def test_two_workers_keep_one_limit() -> None:
    async with team(2, declared=Limits(1200.0)) as t:
        times: list[float] = []

        async def work(flow: Flow) -> None:
            while len(times) < 40:
                ticket = await flow.admit(100)
                times.append(t.clock())
                flow.answered(ticket, ANSWER)

        async with asyncio.TaskGroup() as group:
            for flow in t.flows:
                for _ in range(4):
                    group.create_task(work(flow))
        took = max(times) - min(times)
        assert (len(times) - 1) / took <= 1200 / 60 * 1.1


async def test_a_cancelled_wait_gives_its_permit_to_the_next() -> None:
    async with team(declared=Limits(60.0)) as t:
        t.flow.answered(await t.flow.admit(100), ANSWER)
        first, second = (asyncio.create_task(t.flow.admit(100)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        started = t.clock()
        t.flow.answered(await second, ANSWER)
        assert t.clock() - started < 1.5


async def test_failures_open_the_breaker_for_everybody() -> None:
    async with team(2) as t:
        for flow in t.flows:
            scout(flow)
        bring_down(t.flows[0])
        assert t.flows[0].is_open
        assert t.flows[0].room(0) == 0
        with pytest.raises(BreakerOpen):
            await t.flows[0].admit()
        await until(lambda: t.flows[1].is_open)
        assert t.changes.count(("breaker_opened", "provider_connection")) == 2


async def test_a_wait_ends_when_the_breaker_opens() -> None:
    async with team(declared=Limits(60.0)) as t:
        out = await t.flow.admit(100)
        waiting = asyncio.create_task(t.flow.admit(100))
        await asyncio.sleep(0)
        # Another worker sees the outage.
        await t.account.worker("other").open_breaker(Failure("provider_timeout", 0.0))
        with pytest.raises(BreakerOpen) as refused:
            await waiting
        assert 0 < refused.value.seconds <= 0.2
        t.flow.answered(out, ANSWER)
        assert t.flow.is_open


async def test_one_probe_over_all_workers_closes_it() -> None:
    async with team(3) as t:
        for flow in t.flows:
            scout(flow)
        bring_down(t.flow)
        await until(lambda: all(flow.is_open for flow in t.flows))
        await until(lambda: any(not flow.is_open for flow in t.flows))
        (prober,) = [flow for flow in t.flows if not flow.is_open]
        assert prober.room(0) == 1
        assert prober.room(1) == 0
        assert not prober.is_open
        probe = call(prober)
        assert prober.try_admit() is None
        assert t.account.breaker.state is BreakerState.HALF_OPEN
        prober.settle(probe, "other", reason="provider_auth")
        assert not prober.is_open
        await until(lambda: all(not flow.is_open for flow in t.flows))
        assert all(flow.room(0) > 1 for flow in t.flows)


async def test_a_probe_that_fails_opens_it_again_for_longer() -> None:
    async with team() as t:
        scout(t.flow)
        bring_down(t.flow)
        await until(lambda: t.flow.room(0) == 1)
        t.flow.failed(call(t.flow), DOWN)
        assert t.flow.is_open
        assert t.flow.seconds_until_probe > 0.3
        await until(lambda: t.account.breaker.streak == 2)


async def test_a_probe_that_is_cancelled_is_given_back() -> None:
    async with team() as t:
        scout(t.flow)
        bring_down(t.flow)
        await until(lambda: t.flow.room(0) == 1)
        t.flow.give_back(call(t.flow))
        await until(lambda: t.account.breaker.state is BreakerState.OPEN)
        assert t.account.moves[-1] == "probe_unused"


async def test_a_refusal_closes_the_breaker_but_a_429_never_opens_it() -> None:
    async with team() as t:
        scout(t.flow)
        for _ in range(30):
            ticket = t.flow.try_admit()
            if ticket is None:
                break
            t.flow.settle(ticket, "rate_limited")
        assert not t.flow.is_open
        ticket = await t.flow.admit()
        t.flow.failed(ticket, ConfigurationProviderError("provider_auth"))
        assert not t.flow.is_open


async def test_room_is_announced_when_it_was_denied() -> None:
    async with team() as t:
        scout(t.flow)
        called = asyncio.Event()
        t.flow.on_room = called.set
        bring_down(t.flow)
        assert t.flow.room(0) == 0
        async with asyncio.timeout(5):
            await called.wait()
        assert t.flow.room(0) == 1


async def test_while_the_database_is_away_what_is_left_is_used_and_then_waited_for() -> None:
    async with team(declared=Limits(600.0)) as t:
        for _ in range(3):
            t.flow.answered(await t.flow.admit(100), ANSWER)
        t.account.away = True
        waiting = [asyncio.create_task(t.flow.admit(100)) for _ in range(50)]
        await asyncio.wait(waiting, timeout=1.5)
        done = [task for task in waiting if task.done()]
        assert len(done) <= 10
        t.account.away = False
        async with asyncio.timeout(10):
            await waiting[len(done) + 1]
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_an_outage_seen_while_the_database_is_away_is_told_later() -> None:
    async with team() as t:
        scout(t.flow)
        t.account.away = True
        bring_down(t.flow)
        assert t.flow.is_open
        t.account.away = False
        await until(lambda: "open_breaker" in t.account.moves)


@pytest.mark.parametrize("used", [(10**9, 20), (80, 10**15), (10**400, 0), (-5, 1000), (0, 0)])
def test_a_use_that_cannot_be_is_not_learned(used: tuple[int, int]) -> None:
    estimate = TokenEstimate()
    assert estimate.learn(100, 80, 20)
    assert not estimate.learn(100, *used)
    assert (estimate.mean, estimate.of(100)) == (100.0, 100.0)
    assert estimate.learn(100_000, 900_000, 10_000)


def test_a_long_text_is_not_taken_for_many_times_what_it_is() -> None:
    """Every call carries 60 tokens of instructions; the sizes seen are short, then comes a long one."""
    estimate = TokenEstimate()
    for turn in range(200):
        size = 20 + turn % 30
        estimate.learn(size, 60 + size, 0)
    assert estimate.of(6000) == pytest.approx(6060, rel=0.05)
    estimate.learn(6000, 6060, 0)
    assert estimate.of(30) == pytest.approx(90, rel=0.05)


async def test_retries_are_refused_when_they_do_not_help() -> None:
    async with team() as t:
        scout(t.flow)
        allowed = t.flow.retries_allowed()
        t.flow.note_calls(retries=allowed)
        assert t.flow.retries_allowed() == 0
        ticket = t.flow.try_admit(100, retry=True)
        assert ticket is not None
        t.flow.answered(ticket, ANSWER)
        assert t.flow.retries_allowed() == 1


async def test_permits_ahead_are_given_back_at_the_end() -> None:
    async with team(declared=Limits(600.0)) as t:
        waiting = [asyncio.create_task(t.flow.admit(100)) for _ in range(10)]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        booked = t.account.line.next_request_at
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    assert "give_back" in t.account.moves
    assert t.account.line.next_request_at < booked


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: FlowSettings(concurrency=0),
        lambda: FlowSettings(first_window=0),
        lambda: FlowSettings(sync_every=0),
        lambda: FlowSettings(retry_share=2),
        lambda: FlowSettings(most_retries=0),
    ],
)
def test_settings_that_do_not_fit_are_refused(wrong: Callable[[], FlowSettings]) -> None:
    with pytest.raises(ConfigurationError):
        wrong()
