"""Recorded exchanges with real vendors: each single reply of a known wire is read field by field.

What is expected is computed here from the recording's JSON, without the readers. Of the 160 recordings, five
are event streams: assay never asks for one, and reads none. Bedrock's Converse, Cohere's chat, token counts,
conversations and compactions are other wires: no reader takes them for an answer.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pytest

from assay.adapters.providers.answers import Answer
from assay.adapters.providers.anthropic_reading import read_anthropic_reply
from assay.adapters.providers.gemini_reading import read_gemini_reply
from assay.adapters.providers.openai_chat_reading import read_chat_reply
from assay.adapters.providers.openai_responses_reading import read_responses_reply
from assay.adapters.providers.transport import HttpReply
from assay.domain.failures import ProviderError
from assay.ports import Usage

SHARED = Path(
    os.environ.get("ASSAY_SHARED_DATA", Path(__file__).resolve().parents[2].parent / "shared" / "data")
)
RECORDINGS = SHARED / "json" / "llm_api_recordings_160.jsonl"
NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)

pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason="real inputs are not here: set ASSAY_SHARED_DATA")

Row = dict[str, Any]


class Reader(Protocol):
    def __call__(self, reply: HttpReply, *, settings: frozenset[str], now: datetime) -> Answer: ...


class Expected(NamedTuple):
    content: str
    finish_reason: str
    usage: Usage
    model: str
    reply_id: str | None
    truncated: bool


READERS: dict[str, Reader] = {
    "chat": read_chat_reply,
    "responses": read_responses_reply,
    "messages": read_anthropic_reply,
    "gemini": read_gemini_reply,
}


def rows() -> list[Row]:
    with RECORDINGS.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def wire_of(row: Row) -> str | None:
    path = row["path"].partition("?")[0]
    if path.endswith("/chat/completions"):
        return "chat"
    if path.endswith("/responses") or "/v1/responses/resp_" in path:
        return "responses"
    if path.endswith("/messages"):
        return "messages"
    return "gemini" if "enerateContent" in path else None


def is_stream(row: Row) -> bool:
    return "event-stream" in row["headers"]["content-type"]


def read(reader: Reader, row: Row) -> Answer:
    body = row["response_text"] if row["response"] is None else json.dumps(row["response"])
    reply = HttpReply(row["status"], row["headers"], body.encode(), 1.0, None)
    return reader(reply, settings=frozenset({"model", "temperature"}), now=NOW)


def code_of(reader: Reader, row: Row) -> str:
    with pytest.raises(ProviderError) as caught:
        read(reader, row)
    assert caught.value.status == row["status"]
    return caught.value.code


def single_replies() -> Iterator[tuple[str, Row]]:
    for row in rows():
        wire = wire_of(row)
        if wire is not None and not is_stream(row):
            yield wire, row


def test_every_single_reply_is_read_field_by_field() -> None:
    read_rightly: Counter[str] = Counter()
    codes: Counter[str] = Counter()
    for wire, row in single_replies():
        expected = EXPECTED[wire](row["response"]) if row["status"] == 200 else None
        if expected is None:
            codes[f"{wire} {row['status']} {code_of(READERS[wire], row)}"] += 1
            continue
        answer = read(READERS[wire], row)
        assert answer.content == expected.content
        assert answer.finish_reason == expected.finish_reason == row["finish"]
        assert answer.usage == expected.usage
        assert answer.model == expected.model
        assert answer.reply_id == expected.reply_id
        assert answer.truncated is expected.truncated
        read_rightly[wire] += 1
    assert read_rightly == {"chat": 38, "responses": 28, "messages": 34, "gemini": 29}
    assert codes == {
        "chat 400 provider_request_rejected": 1,
        "responses 400 provider_model_unknown": 1,
        "responses 200 provider_bad_reply": 1,  # fetched while still in progress
        "gemini 200 provider_refused": 2,
    }


def chat(body: Row) -> Expected:
    choice, usage = body["choices"][0], body["usage"]
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", usage.get("cached_tokens"))
    reasoning = (usage.get("completion_tokens_details") or {}).get("reasoning_tokens")
    return Expected(
        content=choice["message"].get("content") or "",
        finish_reason=choice["finish_reason"],
        usage=Usage(usage["prompt_tokens"], usage["completion_tokens"], cached, reasoning),
        model=body["model"],
        reply_id=body["id"],
        truncated=False,
    )


def responses(body: Row) -> Expected | None:
    if body["status"] != "completed":
        return None
    usage = body["usage"]
    texts = [
        part["text"]
        for item in body["output"]
        if item["type"] == "message"
        for part in item["content"]
        if part["type"] == "output_text"
    ]
    return Expected(
        content="".join(texts),
        finish_reason="completed",
        usage=Usage(
            usage["input_tokens"],
            usage["output_tokens"],
            usage["input_tokens_details"]["cached_tokens"],
            usage["output_tokens_details"]["reasoning_tokens"],
        ),
        model=body["model"],
        reply_id=body["id"],
        truncated=False,
    )


def messages(body: Row) -> Expected:
    usage = body["usage"]
    cache = usage["cache_creation_input_tokens"] + usage["cache_read_input_tokens"]
    thinking = usage.get("output_tokens_details", {}).get("thinking_tokens")
    return Expected(
        content="".join(block["text"] for block in body["content"] if block["type"] == "text"),
        finish_reason=body["stop_reason"],
        usage=Usage(
            usage["input_tokens"] + cache, usage["output_tokens"], usage["cache_read_input_tokens"], thinking
        ),
        model=body["model"],
        reply_id=body["id"],
        truncated=body["stop_reason"] == "max_tokens",
    )


def gemini(body: Row) -> Expected | None:
    if not body.get("candidates") or body["candidates"][0]["finishReason"] in ("SAFETY", "MODEL_ARMOR"):
        return None
    candidate, usage = body["candidates"][0], body["usageMetadata"]
    thoughts = usage.get("thoughtsTokenCount")
    return Expected(
        content="".join(
            part.get("text", "") for part in candidate["content"]["parts"] if not part.get("thought")
        ),
        finish_reason=candidate["finishReason"],
        usage=Usage(
            usage["promptTokenCount"] + usage.get("toolUsePromptTokenCount", 0),
            usage["candidatesTokenCount"] + (thoughts or 0),
            usage.get("cachedContentTokenCount"),
            thoughts,
        ),
        model=body["modelVersion"],
        reply_id=body.get("responseId"),
        truncated=False,
    )


EXPECTED = {"chat": chat, "responses": responses, "messages": messages, "gemini": gemini}


def test_tool_calls_alone_are_no_text() -> None:
    alone = 0
    for wire, row in single_replies():
        if row["finish"] in ("tool_calls", "tool_use"):
            answer = read(READERS[wire], row)
            alone += answer.content == ""
            assert "arguments" not in answer.content
    assert alone >= 10


def test_a_stream_is_never_taken_for_an_answer() -> None:
    streams = [row for row in rows() if is_stream(row)]
    assert len(streams) == 5
    assert {code_of(reader, row) for row in streams for reader in READERS.values()} == {"provider_bad_reply"}


def test_other_wires_are_never_taken_for_an_answer() -> None:
    others: Counter[str] = Counter()
    for row in rows():
        for wire, reader in READERS.items():
            if wire_of(row) not in (wire, None) and row["status"] == 200:
                others[code_of(reader, row)] += 1
            if wire_of(row) is None and row["status"] == 200:
                others[code_of(reader, row)] += 1
    assert set(others) == {"provider_bad_reply"}
    assert others.total() > 400


def test_an_unknown_model_stops_the_version_on_every_wire() -> None:
    refused = [row for row in rows() if row["status"] == 404]
    assert [code_of(read_anthropic_reply, row) for row in refused] == ["provider_model_unknown"]
    with pytest.raises(ProviderError) as caught:
        read(read_anthropic_reply, refused[0])
    assert caught.value.request_id == "req_011CVEA3SF7rnb3DuBZytqQa", "the body names it where no header does"
