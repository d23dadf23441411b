"""Requests that the practice vendor reads or refuses."""

from __future__ import annotations

import json

import pytest

from assay.vendor.errors import WireError
from assay.vendor.gold import Json
from assay.vendor.wire import Asked, cut_to_tokens, tokens_of
from assay.vendor.wire_chat import ChatWire

MESSAGES: list[Json] = [{"role": "system", "content": "x" * 40}, {"role": "user", "content": "the text"}]


def read_request(body: bytes) -> Asked:
    return ChatWire().read(body, {})


def _body(**changes: Json) -> bytes:
    return json.dumps({"model": "m", "messages": MESSAGES, **changes}).encode()


def test_the_last_message_is_what_counts() -> None:
    request = read_request(_body())
    assert (request.model, request.message, request.schema, request.max_tokens) == (
        "m",
        "the text",
        None,
        None,
    )
    assert request.prompt_tokens == 3 + (4 + 10) + (4 + 2)


def test_text_parts_are_joined() -> None:
    parts: list[Json] = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert read_request(_body(messages=[{"role": "user", "content": parts}])).message == "ab"


def test_schema_and_limits() -> None:
    named: Json = {"type": "json_schema", "json_schema": {"name": "t", "schema": {"type": "object"}}}
    assert read_request(_body(response_format=named)).schema == {"type": "object"}
    assert read_request(_body(response_format={"type": "json_object"})).schema is None
    assert read_request(_body(max_tokens=9, max_completion_tokens=7)).max_tokens == 7


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"", None),
        (b"{", None),
        (b"\xff\xfe", None),
        (b"[" * 100_000, None),
        (b"[]", None),
        (_body(model=None), "model"),
        (_body(model=""), "model"),
        (_body(stream=True), "stream"),
        (_body(n=2), "n"),
        (_body(messages=[]), "messages"),
        (_body(messages="text"), "messages"),
        (_body(messages=["text"]), "messages[0]"),
        (_body(messages=[{"content": "x"}]), "messages[0]"),
        (_body(messages=[{"role": "user", "content": None}]), "messages[0].content"),
        (_body(messages=[{"role": "user", "content": [{"type": "image_url"}]}]), "messages[0].content"),
        (_body(response_format="json"), "response_format"),
        (_body(response_format={"type": "xml"}), "response_format"),
        (_body(response_format={"type": "json_schema"}), "response_format.json_schema"),
        (_body(max_tokens=0), "max_tokens"),
        (_body(max_tokens=True), "max_tokens"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_field(body: bytes, param: str | None) -> None:
    with pytest.raises(WireError) as caught:
        read_request(body)
    status, refused = ChatWire().error(caught.value, "req_1")
    error = refused["error"]
    assert isinstance(error, dict)
    assert status == 400
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["param"], error["type"]) == (param, "invalid_request_error")


def test_tokens_follow_the_length_and_a_cut_stays_text() -> None:
    assert [tokens_of(text) for text in ("", "a", "abcd", "abcde", "가나")] == [0, 1, 1, 2, 2]
    assert cut_to_tokens("abcdefgh", 1) == "abcd"
    assert cut_to_tokens("가나다", 1) == "가"
