"""The Responses and the messages wire of the practice vendor: requests read, replies and errors worded."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from assay.vendor.errors import WireError, refusal
from assay.vendor.gold import Json
from assay.vendor.limits import BucketState, TooMuch
from assay.vendor.wire import Reply, Wire, limited
from assay.vendor.wire_chat import ChatWire
from assay.vendor.wire_messages import MessagesWire
from assay.vendor.wire_responses import ResponsesWire

RESPONSES, MESSAGES, CHAT = ResponsesWire(), MessagesWire(), ChatWire()
VERSION = {"anthropic-version": "2023-06-01"}
SCHEMA: Json = {"type": "object", "properties": {"a": {}}}
REPLY = Reply("req_1", 7, "m-1", "said", "stop", 100, 40, 9)


def _responses(**changes: Json) -> bytes:
    return json.dumps({"model": "m", "input": "the text", **changes}).encode()


def _messages(**changes: Json) -> bytes:
    asked: dict[str, Json] = {
        "model": "m",
        "max_tokens": 50,
        "messages": [{"role": "user", "content": "the text"}],
    }
    return json.dumps({**asked, **changes}).encode()


def test_the_same_prompt_has_the_same_tokens_on_each_wire() -> None:
    said: list[Json] = [{"role": "user", "content": "the text"}]
    system: list[Json] = [{"role": "system", "content": "Be brief."}]
    chat = CHAT.read(json.dumps({"model": "m", "messages": system + said}).encode(), {})
    responses = RESPONSES.read(_responses(input=said, instructions="Be brief."), {})
    messages = MESSAGES.read(_messages(system="Be brief."), VERSION)
    assert chat.prompt_tokens == responses.prompt_tokens == messages.prompt_tokens
    assert {chat.message, responses.message, messages.message} == {"the text"}


def test_parts_schema_and_limit() -> None:
    parts: Json = [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]
    items: Json = [{"type": "message", "role": "user", "content": parts}]
    form: Json = {"type": "json_schema", "name": "t", "schema": SCHEMA, "strict": True}
    asked = RESPONSES.read(_responses(input=items, text={"format": form}, max_output_tokens=7), {})
    assert (asked.message, asked.schema, asked.max_tokens) == ("ab", SCHEMA, 7)
    assert RESPONSES.read(_responses(text={"format": {"type": "json_object"}}), {}).schema is None
    form = {"type": "json_schema", "schema": SCHEMA}
    blocks: Json = [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]
    for asking in ({"output_config": {"format": form, "effort": "low"}}, {"output_format": form}):
        read = MESSAGES.read(_messages(system=blocks, **asking), VERSION)
        assert (read.schema, read.max_tokens) == (SCHEMA, 50)
    assert MESSAGES.read(_messages(output_config={"effort": "low"}), VERSION).schema is None


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"[]", None),
        (_responses(model=None), "model"),
        (_responses(stream=True), "stream"),
        (_responses(background=True), "background"),
        (_responses(tools=[{}]), "tools"),
        (_responses(input=None), "input"),
        (_responses(input=[]), "input"),
        (_responses(input=[{"type": "reasoning"}]), "input[0]"),
        (_responses(input=[{"role": "user", "content": [{"type": "input_image"}]}]), "input[0].content"),
        (_responses(instructions=5), "instructions"),
        (_responses(text={"format": {"type": "xml"}}), "text.format"),
        (_responses(text={"format": {"type": "json_schema", "schema": {}}}), "text.format"),
        (_responses(max_output_tokens=0), "max_output_tokens"),
    ],
)
def test_what_responses_refuses(body: bytes, param: str | None) -> None:
    with pytest.raises(WireError) as caught:
        RESPONSES.read(body, {})
    status, refused = RESPONSES.error(caught.value, "req_1")
    error: Any = refused["error"]
    assert (status, error["type"], error["param"]) == (400, "invalid_request_error", param)


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (_messages(), {}),
        (b"{", VERSION),
        (_messages(max_tokens=None), VERSION),
        (_messages(max_tokens=True), VERSION),
        (_messages(messages=[]), VERSION),
        (_messages(messages=[{"role": "user", "content": [{"type": "image"}]}]), VERSION),
        (_messages(system=5), VERSION),
        (_messages(tools=[{}]), VERSION),
        (_messages(output_format={"type": "json_object"}), VERSION),
        (_messages(output_config={"format": {"type": "json_schema"}}), VERSION),
    ],
)
def test_what_messages_refuses(body: bytes, headers: dict[str, str]) -> None:
    with pytest.raises(WireError) as caught:
        MESSAGES.read(body, headers)
    status, refused = MESSAGES.error(caught.value, "req_1")
    error: Any = refused["error"]
    assert (status, refused["type"], refused["request_id"]) == (400, "error", "req_1")
    assert (set(error), error["type"]) == ({"type", "message"}, "invalid_request_error")


@pytest.mark.parametrize(
    ("fault", "openai", "anthropic"),
    [
        ("rate_limited", (429, "rate_limit_error", "rate_limit_exceeded"), (429, "rate_limit_error")),
        ("overloaded", (503, "service_unavailable_error", "server_is_overloaded"), (529, "overloaded_error")),
        ("timeout", (408, "server_error", "request_timeout"), (408, "timeout_error")),
        ("unauthorised", (401, "invalid_request_error", "invalid_api_key"), (401, "authentication_error")),
        ("forbidden", (403, "permission_error", "access_denied"), (403, "permission_error")),
        ("quota", (429, "insufficient_quota", "insufficient_quota"), (402, "billing_error")),
    ],
)
def test_errors_in_each_vocabulary(
    fault: str, openai: tuple[int, str, str], anthropic: tuple[int, str]
) -> None:
    for wire in (CHAT, RESPONSES):
        status, body = wire.error(refusal(fault), "req_1")
        error: Any = body["error"]
        assert (status, error["type"], error["code"]) == openai
    status, body = MESSAGES.error(refusal(fault), "req_1")
    error = body["error"]
    assert (status, error["type"]) == anthropic


def test_a_limit_names_itself() -> None:
    error = limited(TooMuch("tokens", 0.2))
    assert CHAT.error(error, "r")[1]["error"] == {
        "message": "The account's limit of tokens is used up.",
        "type": "tokens",
        "param": None,
        "code": "rate_limit_exceeded",
    }
    assert MESSAGES.error(error, "r")[0] == 429


def test_endings_and_usage_in_each_vocabulary() -> None:
    cut, refused = replace(REPLY, finish="length"), replace(REPLY, finish="refusal")
    chat: Any = [CHAT.reply(one) for one in (REPLY, cut, refused)]
    assert [one["choices"][0]["finish_reason"] for one in chat] == ["stop", "length", "stop"]
    assert chat[2]["choices"][0]["message"] == {"role": "assistant", "content": None, "refusal": "said"}
    assert chat[0]["usage"]["prompt_tokens_details"] == {"cached_tokens": 40}
    responses: Any = [RESPONSES.reply(one) for one in (REPLY, cut, refused)]
    assert [one["status"] for one in responses] == ["completed", "incomplete", "completed"]
    assert responses[1]["incomplete_details"] == {"reason": "max_output_tokens"}
    assert responses[2]["output"][0]["content"] == [{"type": "refusal", "refusal": "said"}]
    assert responses[0]["usage"]["input_tokens"] == 100
    assert responses[0]["usage"]["input_tokens_details"]["cached_tokens"] == 40
    messages: Any = [MESSAGES.reply(one) for one in (REPLY, cut, refused)]
    assert [one["stop_reason"] for one in messages] == ["end_turn", "max_tokens", "refusal"]
    assert (messages[2]["content"], messages[2]["stop_details"]["explanation"]) == ([], "said")
    usage = messages[0]["usage"]
    assert (usage["input_tokens"], usage["cache_read_input_tokens"], usage["output_tokens"]) == (60, 40, 9)


def test_what_is_left_out() -> None:
    bare = replace(REPLY, empty=True, with_usage=False)
    assert CHAT.reply(bare)["choices"] == []
    assert "usage" not in CHAT.reply(bare)
    assert RESPONSES.reply(bare)["output"] == []
    assert RESPONSES.reply(bare)["usage"] is None
    assert MESSAGES.reply(bare)["content"] == []
    assert "usage" not in MESSAGES.reply(bare)


def test_headers_of_limits() -> None:
    requests, tokens = BucketState(600, 3, 0.7), BucketState(60_000, 12, 66.0)
    for wire in (CHAT, RESPONSES):
        assert wire.limit_headers(requests, tokens, 0.0) == {
            "x-ratelimit-limit-requests": "600",
            "x-ratelimit-remaining-requests": "3",
            "x-ratelimit-reset-requests": "700ms",
            "x-ratelimit-limit-tokens": "60000",
            "x-ratelimit-remaining-tokens": "12",
            "x-ratelimit-reset-tokens": "1m6s",
        }
    assert MESSAGES.limit_headers(requests, None, 0.0) == {
        "anthropic-ratelimit-requests-limit": "600",
        "anthropic-ratelimit-requests-remaining": "3",
        "anthropic-ratelimit-requests-reset": "1970-01-01T00:00:00.700Z",
    }


@pytest.mark.parametrize(
    ("wire", "headers", "key"),
    [
        (CHAT, {"Authorization": "Bearer k"}, "k"),
        (CHAT, {"Authorization": "k"}, None),
        (CHAT, {"x-api-key": "k"}, None),
        (RESPONSES, {}, None),
        (MESSAGES, {"x-api-key": "k"}, "k"),
        (MESSAGES, {"Authorization": "Bearer k"}, "k"),
        (MESSAGES, {}, None),
    ],
)
def test_keys(wire: Wire, headers: dict[str, str], key: str | None) -> None:
    assert wire.key(headers) == key
