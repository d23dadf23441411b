"""Odd replies of every wire: read where they have one meaning, typed where they have none."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.adapters.providers.answers import Answer
from assay.adapters.providers.anthropic_reading import read_anthropic_reply
from assay.adapters.providers.gemini_reading import read_gemini_reply
from assay.adapters.providers.openai_chat_reading import read_chat_reply
from assay.adapters.providers.openai_responses_reading import read_responses_reply
from assay.adapters.providers.transport import HttpReply
from assay.domain.failures import PROVIDER_CODES, ProviderError

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
READERS = [read_chat_reply, read_responses_reply, read_anthropic_reply, read_gemini_reply]


def outcome(read: Any, body: object, status: int = 200) -> Answer | ProviderError:
    reply = HttpReply(status, {}, json.dumps(body).encode(), 1.0, "req")
    try:
        answer: Answer = read(reply, settings={"model", "temperature"}, now=NOW)
    except ProviderError as failure:
        return failure
    return answer


def code(read: Any, body: object, status: int = 200) -> str:
    found = outcome(read, body, status)
    assert isinstance(found, ProviderError)
    return found.code


def text(read: Any, body: object) -> str:
    found = outcome(read, body)
    assert isinstance(found, Answer)
    return found.content


def message(*texts: str, **more: object) -> dict[str, object]:
    return {"type": "message", "content": [{"type": "output_text", "text": text} for text in texts], **more}


def test_responses_take_the_final_answer_where_phases_are_told() -> None:
    items = [message("thinking aloud", phase="commentary"), message('{"a":', "1}", phase="final_answer")]
    assert text(read_responses_reply, {"status": "completed", "output": items}) == '{"a":1}'
    assert text(read_responses_reply, {"status": "completed", "output": [message("x"), message("y")]}) == "xy"
    assert text(read_responses_reply, {"status": "completed", "output": [{"type": "function_call"}]}) == ""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"status": "failed", "error": {"code": "server_error"}}, "provider_server_error"),
        ({"status": "failed", "error": {"code": "rate_limit_exceeded"}}, "provider_rate_limited"),
        ({"status": "failed", "error": {"code": "invalid_prompt"}}, "provider_request_rejected"),
        ({"status": "failed", "error": {"code": "insufficient_quota"}}, "provider_quota"),
        ({"status": "failed", "error": {"code": "never heard of"}}, "provider_server_error"),
        ({"status": "failed", "error": None}, "provider_server_error"),
        ({"status": "in_progress", "output": []}, "provider_bad_reply"),
        ({"status": "cancelled", "output": []}, "provider_bad_reply"),
        ({"output": [message("x")]}, "provider_bad_reply"),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}, "output": []},
         "provider_refused"),
    ],
)  # fmt: skip
def test_responses_that_are_no_answer(body: dict[str, object], expected: str) -> None:
    assert code(read_responses_reply, body) == expected


@pytest.mark.parametrize(
    ("stop", "truncated"),
    [("end_turn", False), ("stop_sequence", False), ("max_tokens", True), (None, False),
     ("model_context_window_exceeded", True), ("pause_turn", True)],
)  # fmt: skip
def test_messages_say_why_they_stopped(stop: str | None, truncated: bool) -> None:
    found = outcome(read_anthropic_reply, {"content": [{"type": "text", "text": "{"}], "stop_reason": stop})
    assert isinstance(found, Answer)
    assert (found.truncated, found.finish_reason) == (truncated, stop)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("overloaded_error", "provider_overloaded"), ("rate_limit_error", "provider_rate_limited"),
     ("authentication_error", "provider_auth"), ("billing_error", "provider_quota"),
     ("api_error", "provider_server_error"), ("timeout_error", "provider_timeout"),
     ("not_found_error", "provider_model_unknown"), ("invalid_request_error", "provider_request_rejected"),
     ("brand_new_error", "provider_bad_reply")],
)  # fmt: skip
def test_an_error_after_the_headers_is_told_by_its_type(kind: str, expected: str) -> None:
    body = {"type": "error", "error": {"type": kind, "message": "words"}}
    assert code(read_anthropic_reply, body) == expected


def test_a_refusal_keeps_what_it_cost() -> None:
    usage = {"input_tokens": 5, "cache_read_input_tokens": 7, "output_tokens": 3}
    found = outcome(read_anthropic_reply, {"content": [], "stop_reason": "refusal", "usage": usage})
    assert isinstance(found, ProviderError)
    assert found.billed
    assert found.spent is not None
    assert (found.spent.input_tokens, found.spent.cached_tokens, found.spent.output_tokens) == (12, 7, 3)


def test_gemini_thoughts_are_no_text_and_a_blocked_prompt_is_a_refusal() -> None:
    parts = [{"text": "hm", "thought": True}, {"text": "{"}, {"functionCall": {}}, {"text": "}"}]
    assert text(read_gemini_reply, {"candidates": [{"content": {"parts": parts}}]}) == "{}"
    assert text(read_gemini_reply, {"candidates": [{"finishReason": "STOP"}]}) == ""
    assert code(read_gemini_reply, {"promptFeedback": {"blockReason": "SAFETY"}}) == "provider_refused"
    assert code(read_gemini_reply, {"promptFeedback": {}}) == "provider_bad_reply"


def test_google_tells_reason_and_delay_in_details() -> None:
    key = {"error": {"code": 400, "status": "INVALID_ARGUMENT", "details": [{"reason": "API_KEY_INVALID"}]}}
    assert code(read_gemini_reply, key, 400) == "provider_auth"
    slow = {"error": {"code": 429, "details": [{"@type": "RetryInfo", "retryDelay": "34.5s"}]}}
    found = outcome(read_gemini_reply, slow, 429)
    assert isinstance(found, ProviderError)
    assert (found.code, found.retry_after) == ("provider_rate_limited", 34.5)


def test_chat_parts_that_think_aloud_are_no_text() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "{}"},
    ]
    assert text(read_chat_reply, {"choices": [{"message": {"content": parts}}]}) == "{}"


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
names = st.sampled_from(
    ["choices", "message", "content", "refusal", "finish_reason", "usage", "error", "code", "type", "text",
     "id", "status", "output", "incomplete_details", "reason", "stop_reason", "input_tokens", "model",
     "output_tokens", "candidates", "parts", "finishReason", "usageMetadata", "promptTokenCount", "thought",
     "phase", "details", "retryDelay"]
)  # fmt: skip
words = st.sampled_from(["completed", "failed", "incomplete", "message", "output_text", "text", "refusal"])
envelopes = st.recursive(
    scalars | words, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner), max_leaves=30
)


@given(st.sampled_from(READERS), st.integers(200, 599), envelopes)
def test_any_envelope_is_an_answer_or_a_typed_error(read: Any, status: int, body: object) -> None:
    found = outcome(read, body, status)
    if isinstance(found, ProviderError):
        assert (found.request_id, found.status) == ("req", status)
        assert PROVIDER_CODES[found.code] is found.failure_class
    else:
        assert status <= 299
        assert isinstance(found.content, str)
        assert all(
            count is None or (type(count) is int and count >= 0)
            for count in (
                found.tokens.input,
                found.tokens.output,
                found.tokens.cached,
                found.tokens.reasoning,
            )
        )
