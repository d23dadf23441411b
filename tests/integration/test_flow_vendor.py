"""Two workers of one account against the real practice vendor, through the real adapter and PostgreSQL: what
they use of what the vendor allows, what it refuses, and how an outage ends."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import pytest

from assay.adapters.postgres.account_store import AccountStore
from assay.adapters.postgres.session import make_pool
from assay.adapters.providers.openai_chat import OpenAIChatModel
from assay.domain.breaker import BreakerRules
from assay.domain.failures import ProviderError
from assay.domain.pacing import Limits
from assay.pipeline.flow import Flow
from assay.pipeline.flow_settings import FlowSettings
from assay.pipeline.flow_ticket import BreakerOpen
from assay.ports import ModelPort, ModelRequest
from assay.vendor.server import RunningVendor, start_vendor
from assay.vendor.settings import FaultShares, VendorConfig

TEXTS: Final = [
    f"Ticket {number}: " + "the parcel did not arrive. " * (1 + number % 5) for number in range(200)
]
LATENCY: Final = 0.1
CONCURRENCY: Final = 40


@pytest.fixture
def gold(tmp_path: Path) -> Path:
    path = tmp_path / "gold.jsonl"
    path.write_text("".join(json.dumps({"text": text, "label": "delivery"}) + "\n" for text in TEXTS))
    return path


def a_request(number: int) -> ModelRequest:
    return ModelRequest(
        record_id=f"r{number}", input_version=1, messages=(("user", TEXTS[number % len(TEXTS)]),),
        json_schema=None, schema_name="Label", parameters={}, idempotency_key=f"k{number}",
    )  # fmt: skip


@dataclass
class Worker:
    """Calls as fast as its flow lets it; a stand-in for the worker's dispatcher with the same wiring."""

    flow: Flow
    model: ModelPort
    running: set[asyncio.Task[None]] = field(default_factory=set)
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    ends: list[str] = field(default_factory=list)
    refused: int = 0

    async def run(self) -> None:
        self.flow.on_room = self.wake.set
        while True:
            self.wake.clear()
            while self.flow.room(len(self.running)) > 0:
                task = asyncio.create_task(self._call(len(self.ends)))
                self.running.add(task)
                task.add_done_callback(self._done)
                # Its ticket first: room counts those that wait for one.
                await asyncio.sleep(0)
            await self.wake.wait()

    def _done(self, task: asyncio.Task[None]) -> None:
        self.running.discard(task)
        self.wake.set()

    async def _call(self, number: int) -> None:
        request = a_request(number)
        size = sum(len(text) for _, text in request.messages) // 4
        try:
            ticket = self.flow.try_admit(size) or await self.flow.admit(size)
        except BreakerOpen:
            self.refused += 1
            return
        try:
            response = await self.model.complete(request)
        except ProviderError as failure:
            self.ends.append(failure.code)
            self.flow.failed(ticket, failure)
        except BaseException:
            self.flow.give_back(ticket)
            raise
        else:
            self.ends.append("answered")
            self.flow.answered(ticket, response)

    async def stop(self) -> None:
        for task in self.running:
            task.cancel()
        await asyncio.gather(*self.running, return_exceptions=True)
        await self.flow.aclose()
        await self.model.aclose()


@asynccontextmanager
async def two_workers(
    url: str, base_url: str, *, shared: bool = True, declared: Limits | None = None
) -> AsyncIterator[list[Worker]]:
    rules = BreakerRules(base=0.5, cap=2.0, probe_lease=10.0)
    async with AsyncExitStack() as stack:
        workers = []
        for number in range(2):
            pool = make_pool(url, size=2)
            await pool.open()
            stack.push_async_callback(pool.close)
            model = OpenAIChatModel("practice-1", base_url=base_url)
            assert model.account is not None
            account = model.account if shared else f"{model.account}#{number}"
            store = AccountStore(pool, account=account, worker=f"w{number}", breaker=rules)
            settings = FlowSettings(concurrency=CONCURRENCY, breaker=rules, declared=declared or Limits())
            flow = Flow(store, settings, clock=time.monotonic, chance=random.Random(number).random)
            await flow.start()
            worker = Worker(flow, model)
            stack.push_async_callback(worker.stop)
            runner = asyncio.create_task(worker.run())
            stack.push_async_callback(end, runner)
            workers.append(worker)
        yield workers


async def end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@dataclass(frozen=True)
class Use:
    """What the vendor counted in a span of time."""

    seconds: float
    admitted: int
    refused: int
    tokens: int

    def of_requests(self, per_minute: float) -> float:
        return self.admitted / (per_minute / 60 * self.seconds)

    def of_tokens(self, per_minute: float) -> float:
        return self.tokens / (per_minute / 60 * self.seconds)


async def measure(vendor: RunningVendor, seconds: float, *, after: float) -> Use:
    """The use of `seconds`, `after` so many seconds of settling down."""
    await asyncio.sleep(after)
    started, before = time.monotonic(), counted(vendor)
    await asyncio.sleep(seconds)
    now = counted(vendor)
    return Use(time.monotonic() - started, *(new - old for new, old in zip(now, before, strict=True)))


def counted(vendor: RunningVendor) -> tuple[int, int, int]:
    stats = vendor.stats()
    accounts = stats.by_account.values()
    return (
        sum(account.admitted for account in accounts), sum(account.refused for account in accounts),
        stats.prompt_tokens + stats.completion_tokens,
    )  # fmt: skip


async def test_two_workers_use_a_stated_limit_and_no_more(gold: Path, db_url: str) -> None:
    async with (
        start_vendor(VendorConfig(gold, latency=LATENCY, limit_requests=1200)) as vendor,
        two_workers(db_url, vendor.base_url) as workers,
    ):
        use = await measure(vendor, 10.0, after=2.0)
        assert counted(vendor)[1] == 0, "the vendor refused calls although it stated its limit"
        assert 0.95 <= use.of_requests(1200) <= 1.0
        # Both have their part of it.
        assert min(len(worker.ends) for worker in workers) >= 0.3 * use.admitted


async def test_two_workers_use_a_stated_limit_of_tokens(gold: Path, db_url: str) -> None:
    async with (
        start_vendor(VendorConfig(gold, latency=LATENCY, limit_tokens=60_000)) as vendor,
        two_workers(db_url, vendor.base_url),
    ):
        use = await measure(vendor, 10.0, after=3.0)
        assert 0.95 <= use.of_tokens(60_000) <= 1.02
        assert counted(vendor)[1] <= 2


async def test_a_declared_limit_holds_before_the_first_answer(gold: Path, db_url: str) -> None:
    async with (
        start_vendor(VendorConfig(gold, latency=LATENCY, limit_requests=600, hide_limits=True)) as vendor,
        two_workers(db_url, vendor.base_url, declared=Limits(600.0)),
    ):
        use = await measure(vendor, 6.0, after=1.0)
        assert counted(vendor)[1] == 0
        assert use.of_requests(600) >= 0.95


async def test_workers_that_do_not_share_an_account_exceed_it(gold: Path, db_url: str) -> None:
    """The check above can fail: two workers that each believe to have the account for themselves."""
    async with (
        start_vendor(VendorConfig(gold, latency=LATENCY, limit_requests=1200)) as vendor,
        two_workers(db_url, vendor.base_url, shared=False),
    ):
        await measure(vendor, 4.0, after=0.0)
        assert counted(vendor)[1] > 0


@pytest.mark.timeout(180)
async def test_a_hidden_limit_is_found_and_used(gold: Path, db_url: str) -> None:
    """Without a word from the vendor but 429: nearly all of it, for few refusals, once it is found."""
    config = VendorConfig(gold, latency=LATENCY, limit_requests=1800, hide_limits=True)
    async with start_vendor(config) as vendor, two_workers(db_url, vendor.base_url):
        use = await measure(vendor, 30.0, after=25.0)
        assert use.of_requests(1800) >= 0.95
        # One refusal cannot be told from chance; so a limit that is met costs a few.
        assert use.refused <= 0.05 * use.admitted


@pytest.mark.timeout(180)
async def test_refusals_at_random_do_not_take_the_pace_away(gold: Path, db_url: str) -> None:
    """A busy gateway refuses one call in forty, however few there are: nothing is won by calling less."""
    faults = FaultShares(rate_limited=0.025)
    config = VendorConfig(gold, latency=0.5, retry_after=1, faults=replace(faults, rate_limited=1.0))
    async with start_vendor(config) as vendor, two_workers(db_url, vendor.base_url):
        # It begins with nothing else, so that there is a pace, and a low one.
        await until(lambda: vendor.stats().by_status["429"] >= 10)
        await vendor.change({"rate_limited": faults.rate_limited})
        before = vendor.stats().by_status["429"]
        use = await measure(vendor, 10.0, after=65.0)
        assert vendor.stats().by_status["429"] - before > 30
        assert use.admitted >= 0.8 * 10.0 * 2 * CONCURRENCY / 0.5


async def until(holds: Callable[[], bool], seconds: float = 30.0) -> None:
    async with asyncio.timeout(seconds):
        while True:
            if holds():
                return
            await asyncio.sleep(0.01)


async def test_an_outage_costs_a_few_calls_and_ends_with_one_probe(gold: Path, db_url: str) -> None:
    """The vendor's process is gone and comes back: while it is gone, next to no call is made."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = VendorConfig(gold, latency=0.02, port=port)
    async with AsyncExitStack() as stack:
        async with start_vendor(config) as vendor:
            workers = await stack.enter_async_context(two_workers(db_url, vendor.base_url))
            await until(lambda: all(len(worker.ends) > 50 for worker in workers))
        await until(lambda: all(worker.flow.is_open for worker in workers))
        tried = sum(len(worker.ends) for worker in workers)
        await asyncio.sleep(3.0)
        # Probes alone, one at a time, further and further apart.
        probes = sum(len(worker.ends) for worker in workers) - tried
        assert 1 <= probes <= 5
        async with start_vendor(config) as vendor:
            await until(lambda: all(not worker.flow.is_open for worker in workers))
            await until(lambda: vendor.stats().calls > 100)
