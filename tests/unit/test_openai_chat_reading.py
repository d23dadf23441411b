"""The chat wire format, read from recorded exchanges with real vendors and from bytes that are anything."""

from __future__ import annotations

import json
import os
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.adapters.providers.answers import Answer
from assay.adapters.providers.openai_chat_reading import read_chat_reply, read_tokens
from assay.adapters.providers.transport import HttpReply
from assay.domain.failures import PROVIDER_CODES, ProviderError, TransientProviderError
from assay.ports import Usage

SHARED = Path(
    os.environ.get("ASSAY_SHARED_DATA", Path(__file__).resolve().parents[2].parent / "shared" / "data")
)
NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
RECORDINGS = SHARED / "json" / "llm_api_recordings_160.jsonl"
needs_recordings = pytest.mark.skipif(
    not SHARED.is_dir(), reason="real inputs are not here: set ASSAY_SHARED_DATA"
)


def read(status: int, body: bytes, **headers: str) -> Answer:
    reply = HttpReply(status, headers, body, 1.0, "req")
    return read_chat_reply(reply, settings={"model", "messages", "temperature"}, now=NOW)


def exchanges() -> list[dict[str, Any]]:
    with RECORDINGS.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [row for row in rows if row["path"].endswith("/chat/completions")]


def body_of(row: dict[str, Any]) -> bytes:
    if row["response"] is None:
        return str(row["response_text"]).encode()
    return json.dumps(row["response"]).encode()


@needs_recordings
def test_every_recorded_chat_exchange_is_read_rightly() -> None:
    outcomes: Counter[str] = Counter()
    for row in exchanges():
        if row["status"] != 200 or row["response"] is None:
            with pytest.raises(ProviderError) as caught:
                read(row["status"], body_of(row))
            outcomes[caught.value.code] += 1
            continue
        answer = read(200, body_of(row))
        choice, usage = row["response"]["choices"][0], row["response"]["usage"]
        assert answer.content == (choice["message"].get("content") or "")
        assert answer.finish_reason == row["finish"] == choice["finish_reason"]
        assert answer.truncated is False
        assert (answer.model, answer.reply_id) == (row["response"]["model"], row["response"]["id"])
        assert answer.usage == expected_usage(usage)
        outcomes[str(answer.finish_reason)] += 1
    assert outcomes == {"stop": 33, "tool_calls": 5, "provider_bad_reply": 2, "provider_request_rejected": 1}


def expected_usage(usage: dict[str, Any]) -> Usage:
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", usage.get("cached_tokens"))
    reasoning = (usage.get("completion_tokens_details") or {}).get("reasoning_tokens")
    return Usage(usage["prompt_tokens"], usage["completion_tokens"], cached, reasoning)


@needs_recordings
def test_tokens_that_were_cached_or_thought_are_counted_apart() -> None:
    usages = [
        read(200, body_of(row)).usage for row in exchanges() if row["status"] == 200 and row["response"]
    ]
    assert max(usage.cached_tokens or 0 for usage in usages) == 896
    assert max(usage.reasoning_tokens or 0 for usage in usages) == 237


@needs_recordings
def test_other_wires_are_never_taken_for_a_chat_answer() -> None:
    with RECORDINGS.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    others = [row for row in rows if "choices" not in (row["response"] or {}) and row["status"] == 200]
    assert len(others) > 100
    for row in others:
        with pytest.raises(TransientProviderError) as caught:
            read(200, body_of(row))
        assert caught.value.code == "provider_bad_reply"


@given(st.integers(200, 599), st.binary())
def test_any_bytes_are_a_typed_outcome(status: int, body: bytes) -> None:
    with pytest.raises(ProviderError) as caught:
        read(status, body)
    expected = PROVIDER_CODES.get(caught.value.code, caught.value.failure_class)
    assert caught.value.failure_class == expected


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
envelope_names = st.sampled_from(
    ["choices", "message", "content", "refusal", "finish_reason", "usage", "prompt_tokens", "error", "code",
     "type", "text", "param", "prompt_tokens_details", "cached_tokens", "id", "model"]
)  # fmt: skip
envelopes = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(envelope_names, inner), max_leaves=25
)


@given(st.integers(200, 599), envelopes)
def test_any_envelope_is_an_answer_or_a_typed_error(status: int, envelope: object) -> None:
    outcome = outcome_of(status, json.dumps(envelope).encode())
    if isinstance(outcome, ProviderError):
        assert (outcome.request_id, outcome.status) == ("req", status)
    else:
        assert status <= 299
        assert isinstance(outcome.content, str)
        assert all(count is None or count >= 0 for count in counts(outcome.usage))


def outcome_of(status: int, body: bytes) -> Answer | ProviderError:
    try:
        return read(status, body)
    except ProviderError as failure:
        return failure


def counts(usage: Usage) -> list[int | None]:
    return [usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.reasoning_tokens]


@pytest.mark.parametrize(
    ("value", "count"),
    [(0, 0), (12, 12), (12.0, 12), (12.5, None), (True, None), ("12", None), (-1, None), (2**63, None),
     (float("inf"), None), (None, None)],
)  # fmt: skip
def test_counts_are_whole_numbers(value: object, count: int | None) -> None:
    assert read_tokens({"prompt_tokens": value}).input == count


def test_a_cached_count_is_found_where_gateways_put_it() -> None:
    assert read_tokens({"prompt_cache_hit_tokens": 5}).cached == 5
    assert read_tokens({"cached_tokens": 6}).cached == 6
    assert read_tokens({"prompt_tokens_details": {"cached_tokens": 0}, "cached_tokens": 6}).cached == 0


@pytest.mark.parametrize("name", ["a" * 300, "new\nline", "nul\x00", "", 7, ["x"]])
def test_names_that_cannot_be_stored_are_left_out(name: object) -> None:
    body = {"model": name, "id": name, "choices": [{"message": {"content": "x"}, "finish_reason": name}]}
    answer = read(200, json.dumps(body).encode())
    assert (answer.model, answer.reply_id, answer.finish_reason) == (None, None, None)
    assert answer.content == "x"
