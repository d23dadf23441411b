"""Every fault of the practice vendor on every wire over real sockets: what a client meets, what is billed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from decimal import Decimal
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from vendor_client import ADDRESSES, Raw, WireClient

from assay.demo.generator import DemoTicket, generate, write_jsonl
from assay.vendor.entries import Entry
from assay.vendor.journal import read_journal
from assay.vendor.price import read_price
from assay.vendor.server import RunningVendor, start_vendor
from assay.vendor.settings import FaultShares, VendorConfig

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


@pytest.fixture
def config(gold: Path, tmp_path: Path) -> VendorConfig:
    return VendorConfig(
        gold, journal=tmp_path / "journal.jsonl", price=read_price("1,4"), retry_after=7, drip_seconds=0.02
    )


def _entry(config: VendorConfig) -> Entry:
    assert config.journal is not None
    (entry,) = read_journal(config.journal)
    return entry


async def _meet(
    config: VendorConfig, fault: str, wire: str, text: str, session: aiohttp.ClientSession
) -> tuple[Raw, Entry]:
    async with start_vendor(config) as vendor:
        await vendor.change({fault: 1.0})
        reply = await WireClient(vendor.base_url, session, wire).ask(text)
    return reply, _entry(config)


ERRORS = {
    "rate_limited": (429, 429, "7"),
    "overloaded": (503, 529, "7"),
    "timeout": (408, 408, None),
    "unauthorised": (401, 401, None),
    "forbidden": (403, 403, None),
    "quota": (429, 402, None),
}
"""OpenAI's status, Anthropic's, Retry-After."""


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("fault", ERRORS)
async def test_error_replies_are_not_billed(
    fault: str, wire: str, config: VendorConfig, ticket: DemoTicket, session: aiohttp.ClientSession
) -> None:
    openai, anthropic, retry_after = ERRORS[fault]
    reply, entry = await _meet(config, fault, wire, ticket.text, session)
    assert reply.status == entry.status == (anthropic if wire == "messages" else openai)
    assert reply.headers.get("Retry-After") == retry_after
    assert reply.error_type
    assert (entry.fault, entry.outcome, entry.billed, entry.cost) == (fault, "replied", False, "0")
    assert (entry.prompt_tokens, entry.attempted_model) == (0, None)


@pytest.mark.parametrize("wire", WIRES)
async def test_a_page_of_a_gateway_is_no_work(
    wire: str, config: VendorConfig, ticket: DemoTicket, session: aiohttp.ClientSession
) -> None:
    reply, entry = await _meet(config, "html", wire, ticket.text, session)
    assert (reply.status, reply.headers["Content-Type"].split(";")[0]) == (200, "text/html")
    assert reply.raw.startswith(b"<!DOCTYPE html>")
    assert (entry.fault, entry.billed) == ("html", False)


def _is_refusal(reply: Raw) -> bool:
    body: Any = reply.body
    if reply.wire == "chat":
        message = body["choices"][0]["message"]
        return message["content"] is None and bool(message["refusal"])
    if reply.wire == "responses":
        return bool(body["output"][0]["content"][0]["type"] == "refusal")
    return bool(body["stop_reason"] == "refusal" and body["content"] == [])


def _is_empty(reply: Raw) -> bool:
    name = {"chat": "choices", "responses": "output", "messages": "content"}[reply.wire]
    return bool(reply.body[name] == [])


def _is_half(reply: Raw) -> bool:
    try:
        json.loads(reply.raw)
    except ValueError:
        return len(reply.raw) == int(reply.headers["Content-Length"])
    return False


SEEN: dict[str, Callable[[Raw], bool]] = {
    "refusal": _is_refusal,
    "empty_choices": _is_empty,
    "missing_usage": lambda reply: reply.body.get("usage") is None,
    "model_switch": lambda reply: reply.body["model"] == "m-switched",
    "truncated_json": _is_half,
    "drip": lambda reply: bool(reply.body["model"]),
}


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("fault", SEEN)
async def test_spoilt_answers_are_billed(
    fault: str, wire: str, config: VendorConfig, ticket: DemoTicket, session: aiohttp.ClientSession
) -> None:
    reply, entry = await _meet(config, fault, wire, ticket.text, session)
    assert reply.status == 200
    assert SEEN[fault](reply)
    assert (entry.fault, entry.outcome, entry.status, entry.billed) == (fault, "replied", 200, True)
    assert entry.prompt_tokens > 0
    assert entry.attempted_model == ("m-switched" if fault == "model_switch" else "m")
    assert config.price is not None
    assert entry.cost is not None
    assert Decimal(entry.cost) == config.price.cost(entry.prompt_tokens, 0, entry.completion_tokens)
    assert (entry.completion_tokens == 0) == (fault == "empty_choices")


@pytest.mark.parametrize("wire", WIRES)
async def test_a_reset_before_the_headers(
    wire: str, config: VendorConfig, ticket: DemoTicket, session: aiohttp.ClientSession
) -> None:
    with pytest.raises((aiohttp.ClientOSError, aiohttp.ServerDisconnectedError)):
        await _meet(config, "reset", wire, ticket.text, session)
    entry = _entry(config)
    assert (entry.outcome, entry.status, entry.billed) == ("cut", None, True)


@pytest.mark.parametrize("wire", WIRES)
async def test_a_reset_in_the_middle_of_the_body(wire: str, config: VendorConfig, ticket: DemoTicket) -> None:
    async with start_vendor(config) as vendor:
        await vendor.change({"reset_mid_body": 1.0})
        reader, writer = await _send(vendor, wire, ticket.text)
        head = await reader.readuntil(b"\r\n\r\n")
        received = bytearray()
        with pytest.raises(ConnectionResetError):
            await _read_all(reader, received)
        writer.close()
    assert head.startswith(b"HTTP/1.1 200")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    assert len(received) <= length // 2
    entry = _entry(config)
    assert (entry.outcome, entry.status, entry.billed) == ("cut", 200, True)


async def _read_all(reader: asyncio.StreamReader, into: bytearray) -> None:
    while piece := await reader.read(65_536):
        into += piece


async def _send(
    vendor: RunningVendor, wire: str, text: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    async with aiohttp.ClientSession() as unused:
        body = json.dumps(WireClient("", unused, wire).body(text)).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", vendor.port)
    head = f"POST /v1{ADDRESSES[wire]} HTTP/1.1\r\nHost: x\r\nanthropic-version: 1\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    await writer.drain()
    return reader, writer


async def test_a_hang_ends_when_the_client_goes_or_the_time_is_over(
    config: VendorConfig, ticket: DemoTicket, session: aiohttp.ClientSession
) -> None:
    async with start_vendor(config) as vendor:
        await vendor.change({"hang": 1.0})
        _, writer = await _send(vendor, "chat", ticket.text)
        await vendor.until(lambda stats: stats.in_flight == 1)
        writer.close()
        await vendor.until(lambda stats: stats.ended == 1)
        await vendor.change({"hang_seconds": 0.01})
        with pytest.raises((aiohttp.ClientOSError, aiohttp.ServerDisconnectedError)):
            await WireClient(vendor.base_url, session).ask(ticket.text)
        assert vendor.stats().by_outcome == {"client_gone": 1, "cut": 1}
        assert vendor.stats().billed == 2
    assert config.journal is not None
    assert {entry.fault for entry in read_journal(config.journal)} == {"hang"}


async def test_a_drip_arrives_in_pieces_and_is_billed_to_one_who_leaves(
    config: VendorConfig, ticket: DemoTicket
) -> None:
    async with start_vendor(config) as vendor:
        await vendor.change({"drip": 1.0, "drip_seconds": 600})
        reader, writer = await _send(vendor, "chat", ticket.text)
        await reader.readuntil(b"\r\n\r\n")
        assert await reader.readexactly(1) == b"{"
        writer.close()
        await vendor.until(lambda stats: stats.ended == 1)
    entry = _entry(config)
    assert (entry.outcome, entry.fault, entry.billed) == ("client_gone", "drip", True)


async def test_retry_after_as_a_date(
    config: VendorConfig, ticket: DemoTicket, session: aiohttp.ClientSession
) -> None:
    async with start_vendor(config) as vendor:
        await vendor.change({"rate_limited": 1.0, "retry_after_form": "date"})
        reply = await WireClient(vendor.base_url, session).ask(ticket.text)
    then = parsedate_to_datetime(reply.headers["Retry-After"])
    now = parsedate_to_datetime(reply.headers["Date"])
    assert 6 <= (then - now).total_seconds() <= 9


async def test_a_fault_without_a_share_is_never_drawn_and_old_draws_stay(
    gold: Path, ticket: DemoTicket, session: aiohttp.ClientSession
) -> None:
    shares = FaultShares(prose_prefix=0.3, truncation=0.3)
    assert shares.drawn == (("prose_prefix", 0.3), ("truncation", 0.3))
    drawn = []
    for faults in (shares, FaultShares(prose_prefix=0.3, truncation=0.3, model_switch=0.4)):
        async with start_vendor(VendorConfig(gold, seed=2, faults=faults)) as vendor:
            client = WireClient(vendor.base_url, session)
            drawn.append([(await client.ask(ticket.text)).text for _ in range(40)])
            seen = vendor.stats().by_fault
            assert set(seen) == {name for name, _ in faults.drawn}
    assert drawn[0] == drawn[1]  # a new fault takes its share from the calls without a fault
