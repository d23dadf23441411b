"""Accounts of the practice vendor over real sockets: limits, repeated keys, bills."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path

import aiohttp
import pytest
from vendor_client import WireClient

from assay.demo.generator import DemoTicket, generate, write_jsonl
from assay.vendor.journal import read_journal
from assay.vendor.limits import account_of
from assay.vendor.price import read_price
from assay.vendor.server import start_vendor
from assay.vendor.settings import VendorConfig

WIRES = ("chat", "responses", "messages")


@pytest.fixture(scope="module")
def ticket() -> DemoTicket:
    return next(generate(1, seed=11))


@pytest.fixture(scope="module")
def gold(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gold") / "tickets.jsonl"
    write_jsonl(path, 3, seed=11)
    return path


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as opened:
        yield opened


async def test_each_key_has_a_limit_of_its_own(
    gold: Path, ticket: DemoTicket, session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    journal = tmp_path / "journal.jsonl"
    async with start_vendor(VendorConfig(gold, limit_requests=60, limit_burst=5, journal=journal)) as vendor:
        started = time.monotonic()
        for key in ("a", "b"):
            client = WireClient(vendor.base_url, session, key=key)
            replies = await asyncio.gather(*(client.ask(ticket.text) for _ in range(20)))
            allowed = 5 + (time.monotonic() - started)  # one a second is refilled
            counts = vendor.stats().by_account[account_of(key)]
            assert 5 <= counts.admitted <= allowed
            assert counts.refused == 20 - counts.admitted
            assert counts.most_in_60s == counts.admitted
            refused = [reply for reply in replies if reply.status == 429]
            assert len(refused) == counts.refused
            assert {reply.headers["Retry-After"] for reply in refused} == {"1"}
            assert refused[0].body["error"]["type"] == "requests"
    faults = [entry.fault for entry in read_journal(journal)]
    assert faults.count("limit_requests") + faults.count(None) == 40
    assert not any(entry.billed for entry in read_journal(journal) if entry.fault)


@pytest.mark.parametrize("wire", WIRES)
async def test_headers_on_every_reply(
    wire: str, gold: Path, ticket: DemoTicket, session: aiohttp.ClientSession
) -> None:
    name = "anthropic-ratelimit-{}-{}" if wire == "messages" else "x-ratelimit-{1}-{0}"
    config = VendorConfig(gold, limit_requests=120, limit_tokens=6000)
    async with start_vendor(config) as vendor:
        client = WireClient(vendor.base_url, session, wire)
        reply = await client.ask(ticket.text)
        assert reply.headers[name.format("requests", "limit")] == "120"
        assert reply.headers[name.format("tokens", "limit")] == "6000"
        assert int(reply.headers[name.format("requests", "remaining")]) == 1
        assert int(reply.headers[name.format("tokens", "remaining")]) < 100
        assert reply.headers[name.format("requests", "reset")]
        await vendor.change({"server_error": 1.0, "limit_requests": 240, "limit_tokens": None})
        failed = await client.ask(ticket.text)
        assert failed.status >= 500
        assert failed.headers[name.format("requests", "limit")] == "240"
        await vendor.change({"hide_limits": True})
        hidden = await client.ask(ticket.text)
        assert not [header for header in hidden.headers if "ratelimit" in header.lower()]


async def test_tokens_and_calls_at_once_are_limited(
    gold: Path, ticket: DemoTicket, session: aiohttp.ClientSession
) -> None:
    async with start_vendor(VendorConfig(gold, limit_tokens=600, latency=60.0)) as vendor:
        client = WireClient(vendor.base_url, session)
        held = asyncio.create_task(client.ask(ticket.text))
        await vendor.until(lambda stats: stats.in_flight == 1)
        refused = await client.ask(ticket.text)
        assert (refused.status, refused.body["error"]["type"]) == (429, "tokens")
        assert int(refused.headers["Retry-After"]) > 1
        await vendor.change({"limit_tokens": None, "limit_concurrency": 1, "latency": 0.0})
        assert (await client.ask(ticket.text)).body["error"]["type"] == "concurrency"
        held.cancel()
        await vendor.until(lambda stats: stats.in_flight == 0)
        assert (await client.ask(ticket.text)).status == 200
        assert vendor.stats().by_account["none"].peak_in_flight == 1


@pytest.mark.parametrize("wire", WIRES)
async def test_an_honoured_key_gets_the_first_reply_and_one_bill(
    wire: str, gold: Path, ticket: DemoTicket, session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    journal = tmp_path / "journal.jsonl"
    config = VendorConfig(
        gold, idempotency="honoured", price=read_price("1,4"), journal=journal, latency=0.03
    )
    headers = {"Idempotency-Key": "k/1"}
    async with start_vendor(config) as vendor:
        client = WireClient(vendor.base_url, session, wire)
        replies = await asyncio.gather(*(client.ask(ticket.text, headers=headers) for _ in range(5)))
        replies.append(await client.ask(ticket.text, headers=headers))
        assert len({reply.raw for reply in replies}) == 1
        id_header = "request-id" if wire == "messages" else "x-request-id"
        assert len({reply.headers[id_header] for reply in replies}) == 1
        other = await client.ask(ticket.text, {"temperature": 0}, headers)
        assert other.status == 400
        elsewhere = await WireClient(vendor.base_url, session, wire, "b").ask(ticket.text, headers=headers)
        assert elsewhere.raw != replies[0].raw  # another account's key
        assert (vendor.stats().replayed, vendor.stats().billed) == (5, 2)
    entries = read_journal(journal)
    assert [entry.kind for entry in entries].count("replay") == 5
    assert {entry.cost for entry in entries if entry.kind == "replay"} == {"0"}
    first = next(entry for entry in entries if entry.billed)
    assert first.seconds > 0.01
    assert {entry.request_id for entry in entries if entry.kind == "replay"} == {first.request_id}


async def test_work_for_a_client_that_left_is_fetched_with_the_key(
    gold: Path, ticket: DemoTicket, session: aiohttp.ClientSession
) -> None:
    headers = {"Idempotency-Key": "k/1"}
    config = VendorConfig(gold, idempotency="honoured", latency=0.05, latency_spread=0.0)
    async with start_vendor(config) as vendor:
        client = WireClient(vendor.base_url, session)
        left = asyncio.create_task(client.ask(ticket.text, headers=headers))
        await vendor.until(lambda stats: stats.in_flight == 1)
        left.cancel()
        await vendor.until(lambda stats: stats.ended == 1)
        assert (
            json.loads((await client.ask(ticket.text, headers=headers)).text)["category"] == ticket.category
        )
        await vendor.change({"reset": 1.0})
        with pytest.raises((aiohttp.ClientOSError, aiohttp.ServerDisconnectedError)):
            await client.ask(ticket.text, headers={"Idempotency-Key": "k/2"})
        assert (await client.ask(ticket.text, headers={"Idempotency-Key": "k/2"})).status == 200
        assert (vendor.stats().billed, vendor.stats().replayed) == (2, 2)


async def test_a_refusal_is_not_kept_and_an_ignored_key_is_a_new_call(
    gold: Path, ticket: DemoTicket, session: aiohttp.ClientSession
) -> None:
    headers = {"Idempotency-Key": "k/1"}
    async with start_vendor(VendorConfig(gold, idempotency="honoured")) as vendor:
        client = WireClient(vendor.base_url, session)
        await vendor.change({"rate_limited": 1.0})
        assert (await client.ask(ticket.text, headers=headers)).status == 429
        await vendor.change({"rate_limited": 0.0})
        assert (await client.ask(ticket.text, headers=headers)).status == 200
        await vendor.change({"idempotency": "ignored"})
        assert (await client.ask(ticket.text, headers=headers)).status == 200
        assert (vendor.stats().billed, vendor.stats().replayed, vendor.stats().repeated_calls) == (2, 0, 2)


async def test_the_journal_adds_up_to_the_stats(
    gold: Path, ticket: DemoTicket, session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    journal = tmp_path / "journal.jsonl"
    config = VendorConfig(gold, journal=journal, price=read_price("0.25,2.00,0.025"), cached_share=0.5)
    async with start_vendor(config) as vendor:
        await vendor.change({"rate_limited": 0.2, "refusal": 0.2, "html": 0.1, "empty_choices": 0.1})
        for number in range(60):
            await WireClient(vendor.base_url, session, WIRES[number % 3], f"key-{number % 2}").ask(
                ticket.text
            )
        root = vendor.base_url.removesuffix("/v1")
        async with session.get(f"{root}/practice/stats") as response:
            shown = await response.json()
        stats = vendor.stats()
    entries = read_journal(journal)
    billed = [entry for entry in entries if entry.billed]
    assert 0 < len(billed) < len(entries) == 60
    assert stats.cost == sum((Decimal(entry.cost or "0") for entry in entries), Decimal(0)) > 0
    assert Decimal(shown["cost"]) == stats.cost
    assert stats.by_wire == dict.fromkeys(WIRES, 20)
    for account in ("key-0", "key-1"):
        own = [entry for entry in billed if entry.account == account_of(account)]
        totals = stats.by_account[account_of(account)].totals
        assert (totals.calls, totals.billed) == (30, len(own))
        assert totals.prompt_tokens == sum(entry.prompt_tokens for entry in own)
        assert totals.cost == sum((Decimal(entry.cost or "0") for entry in own), Decimal(0))
    assert sum(totals.calls for totals in stats.totals_by_outcome.values()) == 60
