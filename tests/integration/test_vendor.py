"""The practice vendor over real sockets and as a real process."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
from vendor_client import FAULTS, Client, Reply, journal_of

from assay.demo.generator import DemoTicket, generate, write_jsonl
from assay.vendor.server import start_vendor
from assay.vendor.settings import FaultShares, VendorConfig

SHARED = Path(
    os.environ.get("ASSAY_SHARED_DATA", Path(__file__).resolve().parents[2].parent / "shared" / "data")
)
needs_shared = pytest.mark.skipif(
    not SHARED.is_dir(), reason="real inputs are not here: set ASSAY_SHARED_DATA"
)
COUNT = 3000
# Five standard deviations: a draw outside is no bad luck.
DEVIATIONS = 5.0


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


def _within(count: int, share: float, of: int) -> bool:
    return abs(count - share * of) <= DEVIATIONS * math.sqrt(of * share * (1 - share))


async def test_gold_at_the_error_rate(
    gold: Path, tickets: list[DemoTicket], session: aiohttp.ClientSession
) -> None:
    async with start_vendor(VendorConfig(gold, error_rate=0.1, seed=5)) as vendor:
        replies = await Client(vendor.base_url, session).ask_all([ticket.text for ticket in tickets], 64)
        wrong = 0
        for ticket in tickets:
            content, finish_reason = replies[ticket.text].choice
            answer = json.loads(content)
            assert list(answer) == ["category", "confidence", "reason"]
            assert finish_reason == "stop"
            wrong += answer["category"] != ticket.category
        assert _within(wrong, 0.1, COUNT)
        assert vendor.stats().wrong_answers == wrong
        assert vendor.stats().by_lookup == {"exact": COUNT}


async def test_every_fault_at_its_share_and_the_journal_tells_which(
    gold: Path, tickets: list[DemoTicket], session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    config = VendorConfig(gold, faults=FAULTS, seed=5, journal=tmp_path / "journal.jsonl", retry_after=7)
    async with start_vendor(config) as vendor:
        replies = await Client(vendor.base_url, session).ask_all([ticket.text for ticket in tickets], 64)
        stats = vendor.stats()
        for name, share in FAULTS.items():
            assert _within(stats.by_fault[name], share, COUNT), name
        entries = journal_of(tmp_path / "journal.jsonl")
    assert len(entries) == COUNT == stats.calls == stats.ended
    by_text = {entry["text_sha256"]: entry for entry in entries}
    for text, reply in replies.items():
        entry = by_text[hashlib.sha256(text.encode()).hexdigest()]
        assert entry["status"] == reply.status
        assert entry["request_id"] == reply.headers["x-request-id"]
        assert entry["fault"] == _fault_seen(reply)
    assert len({entry["request_id"] for entry in entries}) == COUNT
    assert {entry["sequence"] for entry in entries} == set(range(1, COUNT + 1))
    assert set(stats.by_status) == {"200", "429", "500", "502", "503"}
    assert tickets[0].text not in (tmp_path / "journal.jsonl").read_text(encoding="utf-8")


def _fault_seen(reply: Reply) -> str | None:
    """The fault that a client can see, told without the vendor's help."""
    if reply.status == 429:
        assert reply.headers["Retry-After"] == "7"
        assert reply.error["code"] == "rate_limit_exceeded"
        return "rate_limited"
    if reply.status >= 500:
        assert reply.error["type"] == "server_error"
        return "server_error"
    content, finish_reason = reply.choice
    if finish_reason == "length":
        return "truncation"
    if not content.startswith("{"):
        return "prose_prefix"
    answer = json.loads(content)
    if isinstance(answer["confidence"], str):
        return "string_confidence"
    return "extra_field" if len(answer) > 3 else None


async def test_the_order_and_number_of_callers_change_nothing(
    gold: Path, tickets: list[DemoTicket], session: aiohttp.ClientSession
) -> None:
    config = VendorConfig(gold, faults=FAULTS, error_rate=0.2, seed=9)
    texts = [ticket.text for ticket in tickets[:500]]
    shuffled = sorted(texts, key=lambda text: hashlib.sha256(text.encode()).digest())
    rounds = []
    for order, at_once, latency in ((texts, 1, 0.0), (shuffled, 200, 0.002)):
        async with start_vendor(replace(config, latency=latency)) as vendor:
            client = Client(vendor.base_url, session)
            rounds.append([_what_was_said(await client.ask_all(order, at_once)) for _ in range(3)])
    assert rounds[0] == rounds[1]
    assert len({json.dumps(one, sort_keys=True) for one in rounds[0]}) == 3  # each turn draws its own faults
    async with start_vendor(replace(config, seed=10)) as vendor:
        other_seed = _what_was_said(await Client(vendor.base_url, session).ask_all(texts, 50))
    assert other_seed != rounds[0][0]


def _what_was_said(replies: Mapping[str, Reply]) -> dict[str, str]:
    return {
        text: reply.choice[0] if reply.status == 200 else str(reply.status) for text, reply in replies.items()
    }


async def test_a_retry_meets_another_draw_and_the_same_answer(
    gold: Path, tickets: list[DemoTicket], session: aiohttp.ClientSession
) -> None:
    faults = FaultShares(rate_limited=0.5)
    async with start_vendor(VendorConfig(gold, faults=faults, error_rate=0.5)) as vendor:
        client = Client(vendor.base_url, session)
        for ticket in tickets[:40]:
            replies = [await client.ask(ticket.text) for _ in range(20)]
            assert Counter(reply.status for reply in replies).keys() == {200, 429}
            assert len({reply.choice[0] for reply in replies if reply.status == 200}) == 1


async def test_the_text_is_found_inside_the_last_message_only(
    gold: Path, tickets: list[DemoTicket], session: aiohttp.ClientSession
) -> None:
    long = max(tickets, key=lambda ticket: len(ticket.text))
    async with start_vendor(VendorConfig(gold)) as vendor:
        client = Client(vendor.base_url, session)
        inside = await client.ask(f"Classify this:\n<ticket>\n{long.text}\n</ticket>")
        assert json.loads(inside.choice[0])["category"] == long.category
        messages = [{"role": "user", "content": long.text}, {"role": "user", "content": "thanks"}]
        unknown = await client.post(json.dumps({"model": "m", "messages": messages}).encode())
        guess = json.loads(unknown.choice[0])
        assert guess["category"] == "other"
        assert guess["confidence"] <= 0.35
        assert vendor.stats().by_lookup == {"contained": 1, "unknown": 1}


async def test_usage_model_and_token_limit(
    gold: Path, tickets: list[DemoTicket], session: aiohttp.ClientSession
) -> None:
    async with start_vendor(VendorConfig(gold)) as vendor:
        client = Client(vendor.base_url, session)
        reply = await client.ask(tickets[0].text)
        usage = reply.body["usage"]
        assert isinstance(usage, dict)
        assert usage["prompt_tokens"] > len(tickets[0].text) / 8
        assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
        assert (reply.body["model"], reply.body["object"]) == ("m", "chat.completion")
        assert reply.headers["x-request-id"]
        cut = await client.ask(tickets[0].text, max_completion_tokens=3)
        assert cut.choice[1] == "length"
        assert len(cut.choice[0]) == 12


async def test_repeated_idempotency_keys_are_counted(
    gold: Path, tickets: list[DemoTicket], session: aiohttp.ClientSession
) -> None:
    async with start_vendor(VendorConfig(gold)) as vendor:
        client = Client(vendor.base_url, session)
        for key, calls in (("a/1", 1), ("b/1", 3), ("c/1", 2)):
            for _ in range(calls):
                await client.ask(tickets[0].text, {"Idempotency-Key": key})
        await client.ask(tickets[0].text)
        root = vendor.base_url.removesuffix("/v1")
        async with session.get(f"{root}/practice/stats") as response:
            stats = json.loads(await response.read())
        assert stats == vendor.stats().as_json()
        assert (stats["calls"], stats["distinct_keys"], stats["repeated_keys"]) == (7, 3, 2)
        assert (stats["repeated_calls"], stats["without_key"]) == (3, 1)
        assert vendor.calls_with_key("b/1") == 3
        async with session.get(f"{root}/practice/keys/b/1") as response:
            assert json.loads(await response.read()) == {"calls": 3}


async def test_refusals(
    gold: Path, tickets: list[DemoTicket], session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    config = VendorConfig(gold, api_key="right", model="m", journal=tmp_path / "journal.jsonl")
    async with start_vendor(config) as vendor:
        client = Client(vendor.base_url, session)
        key = {"Authorization": "Bearer right"}
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "right"}):
            refused = await client.ask(tickets[0].text, headers)
            assert (refused.status, refused.error["code"]) == (401, "invalid_api_key")
        unknown = await client.ask(tickets[0].text, key, model="n")
        assert (unknown.status, unknown.error["code"]) == (404, "model_not_found")
        malformed = await client.post(b'{"model": "m"', key)
        assert (malformed.status, malformed.error["type"]) == (400, "invalid_request_error")
        assert (await client.post(b" " * (65 * 2**20), key)).status == 413
        assert (await client.ask(tickets[0].text, key)).status == 200
        async with session.get(f"{vendor.base_url}/models") as response:
            assert response.status == 401
        async with session.get(f"{vendor.base_url}/models", headers=key) as response:
            assert [model["id"] for model in json.loads(await response.read())["data"]] == ["m"]
        async with session.delete(f"{vendor.base_url}/elsewhere") as response:
            assert response.status == 404
            assert "error" in json.loads(await response.read())
        assert vendor.stats().by_outcome == {"refused": 6, "replied": 1}
    entries = journal_of(tmp_path / "journal.jsonl")
    assert [entry["status"] for entry in entries] == [401, 401, 401, 404, 400, 413, 200]


async def test_the_number_of_calls_in_flight_is_seen(
    gold: Path, tickets: list[DemoTicket], session: aiohttp.ClientSession
) -> None:
    async with start_vendor(VendorConfig(gold, latency=0.05, latency_spread=0.0)) as vendor:
        await Client(vendor.base_url, session).ask_all([ticket.text for ticket in tickets[:30]], 30)
        assert vendor.stats().peak_in_flight > 10
        assert vendor.stats().in_flight == 0


@needs_shared
async def test_seventy_seven_labels_of_real_questions(session: aiohttp.ClientSession) -> None:
    path = SHARED / "tickets" / "banking77_train_sample.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
    config = VendorConfig(path, label_column="intent", label_field="intent", error_rate=0.08)
    async with start_vendor(config) as vendor:
        replies = await Client(vendor.base_url, session).ask_all([row["text"] for row in rows], 64)
    wrong = sum(json.loads(replies[row["text"]].choice[0])["intent"] != row["intent"] for row in rows)
    assert _within(wrong, 0.08, len(rows))


@needs_shared
async def test_fields_of_real_receipts(session: aiohttp.ClientSession) -> None:
    path = SHARED / "receipts" / "sroie_150.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
    names = ["company", "date", "total", "confidence"]
    schema = {"type": "object", "properties": {name: {} for name in names}, "required": names}
    asked = {"type": "json_schema", "json_schema": {"name": "receipt", "schema": schema}}
    async with start_vendor(VendorConfig(path, error_rate=0.0)) as vendor:
        client = Client(vendor.base_url, session)
        for row in rows:
            answer = json.loads((await client.ask(f"{row['ocr_text']}", response_format=asked)).choice[0])
            assert list(answer) == names
            assert {name: answer[name] for name in names[:3]} == {
                name: row["gold"][name] for name in names[:3]
            }
