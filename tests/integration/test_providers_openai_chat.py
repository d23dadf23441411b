"""The chat adapter on good replies: what goes over the wire, and what comes back from it."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from decimal import Decimal

import pytest
from pydantic import SecretStr

from assay.adapters.providers.openai_chat import OpenAIChatModel
from assay.ports import ModelPort, ModelRequest, ModelResponse, Usage
from providers_fault_server import (
    CONTENT,
    FaultServer,
    always,
    choice,
    completion,
    fault_server,
    http,
    zipped,
)

SCHEMA = {"type": "object", "properties": {"category": {"type": "string"}}}
KEY = "sk-secret-key-of-the-test"


@dataclass(frozen=True)
class StatedPrice:
    input_per_million: Decimal
    output_per_million: Decimal


def request(key: str = "attempt.annotation.1", **parameters: object) -> ModelRequest:
    return ModelRequest(
        record_id="a person's id",
        input_version=1,
        messages=(("system", "Label it."), ("user", "텍스트 \x00 “quoted”")),
        json_schema=SCHEMA,
        schema_name="Ticket",
        parameters=parameters,
        idempotency_key=key,
    )


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FaultServer]:
    monkeypatch.setenv("ASSAY_ONLY_LOOPBACK", "1")
    async with fault_server({"good": always(http(200, completion()))}) as running:
        yield running


async def call(server: FaultServer, scenario: str, body: bytes | None = None) -> ModelResponse:
    if body is not None:
        server.scenarios[scenario] = always(body)
    model = OpenAIChatModel("small-model", base_url=server.base_url(scenario))
    try:
        return await model.complete(request())
    finally:
        await model.aclose()


async def test_the_request_is_the_version_and_the_record_and_nothing_else(server: FaultServer) -> None:
    model: ModelPort = OpenAIChatModel(
        "small-model", base_url=server.base_url("good") + "/?api-version=7", api_key=SecretStr(KEY)
    )
    await model.complete(request(temperature=0, model="other", stream=True, n=3))
    await model.aclose()
    seen = server.seen[0]
    assert seen.path == "/good/v1/chat/completions?api-version=7"
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert seen.headers["idempotency-key"] == seen.headers["x-client-request-id"] == "attempt.annotation.1"
    assert seen.body == {
        "temperature": 0,
        "model": "small-model",
        "messages": [
            {"role": "system", "content": "Label it."},
            {"role": "user", "content": "텍스트 \x00 “quoted”"},
        ],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "Ticket", "strict": True, "schema": SCHEMA},
        },
    }
    assert "a person's id" not in json.dumps([seen.body, dict(seen.headers)])
    assert KEY not in repr(model)


async def test_without_a_key_no_authorization_and_without_structured_output_no_schema(
    server: FaultServer,
) -> None:
    model = OpenAIChatModel("small-model", base_url=server.base_url("good"), structured_output=False)
    await model.complete(request(response_format={"type": "json_object"}))
    await model.aclose()
    assert "authorization" not in server.seen[0].headers
    assert server.seen[0].body["response_format"] == {"type": "json_object"}


@pytest.mark.parametrize("key", ["with\r\nX-Injected: 1", "ключ", "x" * 300, "\ud800"])
async def test_a_key_that_no_header_can_hold_is_hashed(key: str, server: FaultServer) -> None:
    model = OpenAIChatModel("small-model", base_url=server.base_url("good"))
    for _ in range(2):
        await model.complete(request(key))
    await model.aclose()
    sent = [seen.headers["idempotency-key"] for seen in server.seen]
    assert sent[0] == sent[1]
    assert len(sent[0]) == 64
    assert "x-injected" not in server.seen[0].headers


async def test_everything_known_of_a_call_is_kept(server: FaultServer) -> None:
    price = StatedPrice(Decimal("0.25"), Decimal("2"))
    model = OpenAIChatModel("small-model", base_url=server.base_url("good"), price=price)
    response = await model.complete(request())
    await model.aclose()
    assert response.content == CONTENT
    assert (response.truncated, response.finish_reason, response.status) == (False, "stop", 200)
    assert response.usage == Usage(1000, 50, cached_tokens=200, reasoning_tokens=7)
    assert response.cost == Decimal("0.00035")
    assert (response.request_id, response.model) == ("req-7", "small-model-2026-01-01")
    assert response.latency_ms > 0.0


@pytest.mark.parametrize(
    "content", [None, "", "  ", "\ufeff{}", "Sure: {}", "{}\n", "\x00", "\ud800", "결과"]
)
async def test_the_answer_leaves_exactly_as_given(content: str | None, server: FaultServer) -> None:
    response = await call(server, "content", http(200, completion(choices=choice(content=content))))
    assert response.content == (content or "")


async def test_parts_of_text_are_one_answer(server: FaultServer) -> None:
    parts = [{"type": "text", "text": '{"a":'}, {"type": "text", "text": " 1}"}]
    response = await call(server, "parts", http(200, completion(choices=choice(content=parts))))
    assert response.content == '{"a": 1}'


async def test_a_cut_answer_says_so(server: FaultServer) -> None:
    response = await call(server, "cut", http(200, completion(choices=choice("length", content="{"))))
    assert (response.content, response.truncated, response.finish_reason) == ("{", True, "length")


async def test_odd_envelopes_are_read(server: FaultServer) -> None:
    odd = completion(
        usage={"prompt_tokens": 10**30, "completion_tokens": -1, "prompt_tokens_details": [1]},
        model=7,
        unknown={"deep": [None] * 100},
    )
    text = json.dumps(odd).replace(
        '"object"', '"huge": ' + "9" * 6000 + ', "id": "two", "nan": NaN, "object"'
    )
    response = await call(server, "odd", http(200, " \n\n" + text))
    assert response.content == CONTENT
    assert (response.usage, response.model, response.cost) == (Usage(), None, None)


async def test_missing_usage_is_no_failure(server: FaultServer) -> None:
    body = completion(choices=choice(None, content="{}"))
    del body["usage"], body["model"]
    reply = http(200, body).replace(b"X-Request-Id", b"X-Other")
    response = await call(server, "bare", reply)
    assert (response.content, response.usage, response.finish_reason) == ("{}", Usage(), None)
    assert response.request_id == "chatcmpl-1", "the completion's id stands in for the header"


async def test_a_gzip_body_is_unpacked(server: FaultServer) -> None:
    assert gzip.decompress(zipped(b"x").split(b"\r\n\r\n", 1)[1]) == b"x"
    response = await call(server, "gzip", zipped(json.dumps(completion()).encode()))
    assert response.content == CONTENT


async def test_connections_are_reused_and_calls_run_side_by_side(server: FaultServer) -> None:
    model = OpenAIChatModel("small-model", base_url=server.base_url("good"))
    for _ in range(5):
        await model.complete(request())
    assert server.connections == 1
    responses = await asyncio.gather(*(model.complete(request()) for _ in range(20)))
    assert {response.content for response in responses} == {CONTENT}
    await model.aclose()
    await model.aclose()


async def test_the_connection_limit_holds(server: FaultServer) -> None:
    model = OpenAIChatModel("small-model", base_url=server.base_url("good"), connection_limit=2)
    await asyncio.gather(*(model.complete(request()) for _ in range(20)))
    await model.aclose()
    assert server.connections <= 2
