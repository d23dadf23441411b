"""The practice vendor's three wires over real sockets: same answers, same faults, same bills."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from vendor_client import FAULTS, Raw, WireClient

from assay.demo.generator import DemoTicket, generate, write_jsonl
from assay.vendor.journal import read_journal
from assay.vendor.limits import account_of
from assay.vendor.price import read_price
from assay.vendor.server import start_vendor
from assay.vendor.settings import VendorConfig

COUNT = 120
WIRES = ("chat", "responses", "messages")
SCHEMA = {
    "type": "object",
    "properties": {"confidence": {"type": "number"}, "category": {"type": "string"}},
    "required": ["confidence", "category"],
}
STRUCTURED: dict[str, dict[str, object]] = {
    "chat": {"response_format": {"type": "json_schema", "json_schema": {"name": "t", "schema": SCHEMA}}},
    "responses": {"text": {"format": {"type": "json_schema", "name": "t", "schema": SCHEMA}}},
    "messages": {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
}
LIMIT_OF = {"chat": "max_completion_tokens", "responses": "max_output_tokens", "messages": "max_tokens"}


@pytest.fixture(scope="module")
def tickets() -> list[DemoTicket]:
    return list(generate(COUNT, seed=11))


@pytest.fixture(scope="module")
def gold(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gold") / "tickets.jsonl"
    write_jsonl(path, COUNT, seed=11)
    return path


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as opened:
        yield opened


async def test_answers_faults_and_bills_are_the_same_on_each_wire(
    gold: Path, tickets: list[DemoTicket], session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    said: dict[str, list[str]] = {}
    books: dict[str, list[tuple[object, ...]]] = {}
    for wire in WIRES:
        journal = tmp_path / f"{wire}.jsonl"
        config = VendorConfig(
            gold, seed=3, error_rate=0.2, faults=FAULTS, journal=journal, price=read_price("1,4")
        )
        async with start_vendor(config) as vendor:
            client = WireClient(vendor.base_url, session, wire)
            replies = [await client.ask(ticket.text) for ticket in tickets]
        said[wire] = [reply.text if reply.status == 200 else str(reply.status) for reply in replies]
        entries = read_journal(journal)
        assert {entry.wire for entry in entries} == {wire}
        books[wire] = [
            (entry.status, entry.fault, entry.billed, entry.cost, entry.text_sha256) for entry in entries
        ]
    assert said["chat"] == said["responses"] == said["messages"]
    assert books["chat"] == books["responses"] == books["messages"]
    assert len({row[1] for row in books["chat"]}) > 4


@pytest.mark.parametrize("wire", WIRES)
async def test_structured_output_usage_and_ids(
    wire: str, gold: Path, tickets: list[DemoTicket], session: aiohttp.ClientSession
) -> None:
    async with start_vendor(VendorConfig(gold, cached_share=0.25)) as vendor:
        reply = await WireClient(vendor.base_url, session, wire).ask(tickets[0].text, STRUCTURED[wire])
        assert list(json.loads(reply.text)) == ["confidence", "category"]
        assert json.loads(reply.text)["category"] == tickets[0].category
        header = "request-id" if wire == "messages" else "x-request-id"
        assert reply.headers[header].startswith("req_")
        stats = vendor.stats()
        assert stats.cached_tokens == int(stats.prompt_tokens * 0.25) > 0
        assert _usage(reply) == (stats.prompt_tokens, stats.cached_tokens, stats.completion_tokens)


def _usage(reply: Raw) -> tuple[int, int, int]:
    """Input in all, input from the cache, output."""
    usage = reply.body["usage"]
    if reply.wire == "chat":
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        return usage["prompt_tokens"], cached, usage["completion_tokens"]
    if reply.wire == "responses":
        cached = usage["input_tokens_details"]["cached_tokens"]
        return usage["input_tokens"], cached, usage["output_tokens"]
    cached = usage["cache_read_input_tokens"]
    return usage["input_tokens"] + cached, cached, usage["output_tokens"]


@pytest.mark.parametrize("wire", WIRES)
async def test_a_token_limit_cuts_and_says_so(
    wire: str, gold: Path, tickets: list[DemoTicket], session: aiohttp.ClientSession
) -> None:
    async with start_vendor(VendorConfig(gold)) as vendor:
        client = WireClient(vendor.base_url, session, wire)
        reply = await client.ask(tickets[0].text, {LIMIT_OF[wire]: 3})
    assert len(reply.text) == 12
    ending = {
        "chat": lambda body: body["choices"][0]["finish_reason"] == "length",
        "responses": lambda body: body["incomplete_details"] == {"reason": "max_output_tokens"},
        "messages": lambda body: body["stop_reason"] == "max_tokens",
    }
    assert ending[wire](reply.body)


@pytest.mark.parametrize("wire", WIRES)
async def test_keys_are_checked_and_name_the_account(
    wire: str, gold: Path, tickets: list[DemoTicket], session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    journal = tmp_path / "journal.jsonl"
    async with start_vendor(VendorConfig(gold, api_key="right", journal=journal)) as vendor:
        refused = await WireClient(vendor.base_url, session, wire, "wrong").ask(tickets[0].text)
        nobody = await WireClient(vendor.base_url, session, wire).ask(tickets[0].text)
        served = await WireClient(vendor.base_url, session, wire, "right").ask(tickets[0].text)
        assert (refused.status, nobody.status, served.status) == (401, 401, 200)
        expected = "authentication_error" if wire == "messages" else "invalid_request_error"
        assert refused.error_type == expected
        if wire == "messages":
            assert refused.body["request_id"] == refused.headers["request-id"]
    entries = read_journal(journal)
    assert [entry.account for entry in entries] == [account_of("wrong"), "none", account_of("right")]
    assert [entry.billed for entry in entries] == [False, False, True]
    assert "right" not in journal.read_text(encoding="utf-8")


async def test_models_in_both_forms(gold: Path, session: aiohttp.ClientSession) -> None:
    async with start_vendor(VendorConfig(gold, model="m")) as vendor:
        async with session.get(f"{vendor.base_url}/models") as response:
            openai = await response.json()
        headers = {"anthropic-version": "2023-06-01"}
        async with session.get(f"{vendor.base_url}/models", headers=headers) as response:
            anthropic = await response.json()
    assert (openai["object"], openai["data"][0]["id"]) == ("list", "m")
    assert (anthropic["has_more"], anthropic["data"][0]["type"], anthropic["first_id"]) == (
        False,
        "model",
        "m",
    )
