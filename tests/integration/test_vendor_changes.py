"""Settings of the practice vendor change while it runs: by hand, over HTTP, by a timeline; it goes down."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from vendor_client import WireClient, journal_of

from assay.demo.generator import DemoTicket, generate, write_jsonl
from assay.vendor.entries import Change
from assay.vendor.errors import VendorSettingsError
from assay.vendor.journal import read_changes, read_journal
from assay.vendor.limits import account_of
from assay.vendor.server import start_vendor
from assay.vendor.settings import VendorConfig

GONE = (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError)


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
def journal(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


def _shown(changes: list[Change]) -> list[tuple[object, ...]]:
    return [(one.origin, one.action, one.settings) for one in changes]


async def test_changes_by_hand_hold_at_once_and_are_in_the_journal(
    gold: Path, ticket: DemoTicket, session: aiohttp.ClientSession, journal: Path
) -> None:
    async with start_vendor(VendorConfig(gold, journal=journal)) as vendor:
        client = WireClient(vendor.base_url, session)
        assert (await client.ask(ticket.text)).text.startswith("{")
        await vendor.change({"prose_prefix": 1.0, "reply_model": "m-2"})
        spoilt = await client.ask(ticket.text)
        assert not spoilt.text.startswith("{")
        assert spoilt.body["model"] == "m-2"
        with pytest.raises(VendorSettingsError, match="html"):
            await vendor.change({"html": 2})
        await vendor.change({"prose_prefix": 0.0, "error_rate": 1.0})
        wrong = json.loads((await client.ask(ticket.text)).text)
        assert wrong["category"] != ticket.category
        assert vendor.stats().changes == 2
        assert vendor.config.error_rate == 1.0
    assert _shown(read_changes(journal)) == [
        ("process", "begin", {"prose_prefix": 1.0, "reply_model": "m-2"}),
        ("process", "begin", {"prose_prefix": 0.0, "error_rate": 1.0}),
    ]
    assert [entry.attempted_model for entry in read_journal(journal)] == ["m", "m-2", "m-2"]


async def test_a_change_for_a_time_ends_and_what_it_covered_shows_again(
    gold: Path, ticket: DemoTicket, session: aiohttp.ClientSession, journal: Path
) -> None:
    async with start_vendor(VendorConfig(gold, journal=journal)) as vendor:
        client = WireClient(vendor.base_url, session)
        await vendor.change({"server_error": 1.0}, seconds=0.05)
        assert (await client.ask(ticket.text)).status >= 500
        await vendor.change({"retry_after": 9})
        await vendor.until(lambda stats: stats.changes == 3)
        assert (await client.ask(ticket.text)).status == 200
        assert vendor.config.retry_after == 9
        await vendor.change({"prose_prefix": 0.0}, seconds=600)
        await vendor.change({"prose_prefix": 0.5})
        with pytest.raises(VendorSettingsError, match="add up"):
            await vendor.change({"html": 0.6}, seconds=60)
    assert [(one.action, one.seconds) for one in read_changes(journal)][:3] == [
        ("begin", 0.05),
        ("begin", None),
        ("end", 0.05),
    ]


async def test_an_end_that_could_not_be_is_refused_beforehand(gold: Path) -> None:
    async with start_vendor(VendorConfig(gold)) as vendor:
        await vendor.change({"prose_prefix": 0.6})
        await vendor.change({"prose_prefix": 0.0}, seconds=600)
        with pytest.raises(VendorSettingsError, match="add up"):
            await vendor.change({"html": 0.6})
        assert vendor.config.faults.html == 0.0


async def test_settings_over_http(
    gold: Path, ticket: DemoTicket, session: aiohttp.ClientSession, journal: Path
) -> None:
    async with start_vendor(VendorConfig(gold, journal=journal)) as vendor:
        address = vendor.base_url.removesuffix("/v1") + "/practice/settings"
        async with session.post(address, json={"api_key": "secret", "latency": 0.001}) as response:
            settings = await response.json()
        assert (settings["api_key"], settings["latency"]) == (account_of("secret"), 0.001)
        assert (await WireClient(vendor.base_url, session).ask(ticket.text)).status == 401
        assert (await WireClient(vendor.base_url, session, key="secret").ask(ticket.text)).status == 200
        for wrong in (b"{}", b'{"html": 3}', b'{"gold": "x"}', b"[]", b'{"html": 0.1, "seconds": "1"}', b"{"):
            async with session.post(address, data=wrong) as response:
                assert response.status == 400
                assert (await response.json())["error"]["message"]
        async with session.get(address) as response:
            assert await response.json() == settings
    assert _shown(read_changes(journal)) == [
        ("request", "begin", {"api_key": account_of("secret"), "latency": 0.001})
    ]
    assert "secret" not in str(journal_of(journal))


@pytest.mark.parametrize(("state", "status"), [("invalid", 401), ("forbidden", 403), ("exhausted", 429)])
async def test_a_key_that_stops_working_and_works_again(
    state: str, status: int, gold: Path, ticket: DemoTicket, session: aiohttp.ClientSession
) -> None:
    async with start_vendor(VendorConfig(gold)) as vendor:
        client = WireClient(vendor.base_url, session, key="k")
        assert (await client.ask(ticket.text)).status == 200
        await vendor.change({"key_state": state})
        assert (await client.ask(ticket.text)).status == status
        await vendor.change({"key_state": "valid"})
        assert (await client.ask(ticket.text)).status == 200
        assert vendor.stats().billed == 2


async def test_a_timeline_from_the_first_call(
    gold: Path, ticket: DemoTicket, session: aiohttp.ClientSession, tmp_path: Path, journal: Path
) -> None:
    steps = [
        {"at": 0.05, "until": 0.1, "string_confidence": 1.0, "note": "09:18"},
        {"at": 0, "reply_model": "m-next", "note": "09:00"},
        {"at": 0.15, "reply_model": "m-later"},
    ]
    timeline = tmp_path / "incident.json"
    timeline.write_text(json.dumps(steps), encoding="utf-8")
    async with start_vendor(VendorConfig(gold, journal=journal, timeline=timeline)) as vendor:
        assert vendor.stats().changes == 0
        first = await WireClient(vendor.base_url, session).ask(ticket.text)
        assert first.body["model"] == "m-next"  # the first call meets what is due at once
        await vendor.until(lambda stats: stats.changes == 4)
        last = await WireClient(vendor.base_url, session).ask(ticket.text)
        assert last.body["model"] == "m-later"
    changes = read_changes(journal)
    assert _shown(changes) == [
        ("timeline", "begin", {"reply_model": "m-next"}),
        ("timeline", "begin", {"string_confidence": 1.0}),
        ("timeline", "end", {"string_confidence": 1.0}),
        ("timeline", "begin", {"reply_model": "m-later"}),
    ]
    assert [one.at for one in changes] == sorted(one.at for one in changes)
    assert changes[1].at - changes[0].at == pytest.approx(0.05, abs=0.04)


async def test_a_timeline_from_the_start_and_one_that_a_change_by_hand_contradicts(
    gold: Path, tmp_path: Path, journal: Path
) -> None:
    timeline = tmp_path / "incident.toml"
    timeline.write_text('from = "start"\n[[steps]]\nat = 0.05\nprose_prefix = 0.9\n', encoding="utf-8")
    async with start_vendor(VendorConfig(gold, journal=journal, timeline=timeline)) as vendor:
        await vendor.change({"html": 0.9})
        await vendor.until(lambda stats: stats.changes == 2)
        assert vendor.config.faults.prose_prefix == 0.0
    assert _shown(read_changes(journal))[1] == ("timeline", "refused", {"prose_prefix": 0.9})


async def test_down_refuses_connections_and_the_port_comes_back(
    gold: Path, ticket: DemoTicket, session: aiohttp.ClientSession, journal: Path
) -> None:
    async with start_vendor(VendorConfig(gold, journal=journal)) as vendor, aiohttp.ClientSession() as second:
        client, idle = WireClient(vendor.base_url, session), WireClient(vendor.base_url, second)
        assert (await idle.ask(ticket.text)).status == 200
        await vendor.change({"latency": 60.0})
        held = asyncio.create_task(client.ask(ticket.text))
        await vendor.until(lambda stats: stats.in_flight == 1)
        await vendor.change({"down": "refusing"})
        with pytest.raises(GONE):
            await held
        for one in (client, idle):
            with pytest.raises(aiohttp.ClientConnectorError):
                await one.ask(ticket.text)
        await vendor.change({"down": "no", "latency": 0.0})
        assert (await client.ask(ticket.text)).status == 200
        await vendor.change({"down": "refusing"}, seconds=0.05)
        with pytest.raises(aiohttp.ClientConnectorError):
            await idle.ask(ticket.text)
        await vendor.until(lambda stats: stats.changes == 5)
        await vendor.practice.door.followed()
        assert (await client.ask(ticket.text)).status == 200
    outcomes = [(entry.outcome, entry.fault, entry.billed) for entry in read_journal(journal)]
    plain = ("replied", None, True)
    assert outcomes == [plain, ("cut", "down", True), plain, plain]


async def test_a_request_may_take_the_vendor_down_for_a_time(
    gold: Path, ticket: DemoTicket, session: aiohttp.ClientSession
) -> None:
    async with start_vendor(VendorConfig(gold)) as vendor:
        address = vendor.base_url.removesuffix("/v1") + "/practice/settings"
        async with session.post(address, json={"down": "refusing", "seconds": 0.05}) as response:
            assert (await response.json())["down"] == "refusing"
        await vendor.until(lambda stats: stats.changes == 2)
        await vendor.practice.door.followed()
        assert (await WireClient(vendor.base_url, session).ask(ticket.text)).status == 200


async def test_closing_at_once_leaves_the_control_open(
    gold: Path, ticket: DemoTicket, session: aiohttp.ClientSession, journal: Path
) -> None:
    async with start_vendor(VendorConfig(gold, journal=journal)) as vendor:
        client = WireClient(vendor.base_url, session)
        address = vendor.base_url.removesuffix("/v1") + "/practice/settings"
        async with session.post(address, json={"down": "closing"}) as response:
            assert (await response.json())["down"] == "closing"
        with pytest.raises(GONE):
            await client.ask(ticket.text)
        with pytest.raises(GONE):
            await session.get(f"{vendor.base_url}/models")
        async with session.post(address, json={"down": "no"}) as response:
            assert response.status == 200
        assert (await client.ask(ticket.text)).status == 200
        assert vendor.stats().by_outcome == {"cut": 1, "replied": 1}
    assert [(entry.fault, entry.billed) for entry in read_journal(journal)] == [("down", False), (None, True)]


async def test_a_vendor_may_start_down(
    gold: Path, ticket: DemoTicket, session: aiohttp.ClientSession
) -> None:
    async with start_vendor(VendorConfig(gold, down="refusing")) as vendor:
        client = WireClient(vendor.base_url, session)
        with pytest.raises(aiohttp.ClientConnectorError):
            await client.ask(ticket.text)
        await vendor.change({"down": "no"})
        assert (await client.ask(ticket.text)).status == 200
