"""What is particular to models that pydantic-ai calls: the vendor's own text, one request, unknown wires."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import pytest
from pydantic_ai import exceptions, messages
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from assay.adapters.providers.prices import cost_function
from assay.adapters.providers.pydantic_ai_making import make_pydantic_ai_model
from assay.adapters.providers.pydantic_ai_model import PydanticAIModel
from assay.adapters.providers.transport import Deadlines
from assay.domain.failures import FailureClass, ProviderError
from assay.domain.price import Price
from assay.ports import ModelRequest, ModelResponse, Usage
from providers_fault_server import (
    MEBIBYTE,
    FaultServer,
    always,
    choice,
    completion,
    fault_server,
    http,
    zipped,
)

REQUEST = ModelRequest("r", 1, (("system", "Label it."), ("user", "text")), None, "S", {}, "k")
LONG = Deadlines(total=20.0, connect=10.0, read=20.0)


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FaultServer]:
    monkeypatch.setenv("ASSAY_ONLY_LOOPBACK", "1")
    async with fault_server({}) as running:
        yield running


async def call(server: FaultServer, reply: bytes, **options: Any) -> ModelResponse | ProviderError:
    server.scenarios["x"] = always(reply)
    model = make_pydantic_ai_model(
        "openai-chat:small-model", base_url=server.base_url("x"), parameters={}, deadlines=LONG, **options
    )
    try:
        return await model.complete(REQUEST)
    except ProviderError as failure:
        return failure
    finally:
        await model.aclose()


@pytest.mark.parametrize(
    "content", ["<think>hm</think>{}", "", " \n", "\ufeff{}", "{}\x00", "결과", "\ud800"]
)
async def test_the_boundary_gets_the_vendors_text_and_not_a_cleaned_one(
    content: str, server: FaultServer
) -> None:
    response = await call(server, http(200, completion(choices=choice(content=content))))
    assert isinstance(response, ModelResponse)
    assert response.content == content


async def test_a_packed_reply_is_unpacked_within_the_bound(server: FaultServer) -> None:
    body = json.dumps(completion()).encode()
    assert gzip.decompress(gzip.compress(body)) == body
    response = await call(server, zipped(body))
    assert isinstance(response, ModelResponse)
    assert response.usage == Usage(1000, 50, 200, 7)
    failure = await call(server, zipped(b" " * 100 * MEBIBYTE), max_response_bytes=MEBIBYTE)
    assert isinstance(failure, ProviderError)
    assert failure.code == "provider_bad_reply"
    assert len(failure.partial) <= 64 * 1024


async def test_a_price_is_charged_and_no_vendors_key_is_taken_from_the_environment(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-vendor")
    response = await call(server, http(200, completion()), price=Price("0.25", "2"))
    assert isinstance(response, ModelResponse)
    assert response.cost == Decimal("0.00035")
    assert "sk-of-the-vendor" not in str(server.seen[0])


def uncaptured(answer: Any, deadline: float = 20.0) -> PydanticAIModel:
    """A model that does not call over our client, as Bedrock's does not."""
    return PydanticAIModel(
        FunctionModel(answer),
        account="https://vendor.invalid#-",
        cost=cost_function(None, "m", "http://localhost"),
        settings={},
        deadlines=Deadlines(total=deadline),
        structured_output=True,
        captured=False,
        close=lambda: None,
    )


async def failure_of(error: Exception) -> ProviderError:
    def raises(heard: list[messages.ModelMessage], info: AgentInfo) -> messages.ModelResponse:
        raise error

    with pytest.raises(ProviderError) as caught:
        await uncaptured(raises).complete(REQUEST)
    assert caught.value.__context__ is None, "errors of an SDK may hold the key"
    return caught.value


async def test_an_unknown_wire_gives_pydantic_ais_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASSAY_ONLY_LOOPBACK", raising=False)

    def answers(heard: list[messages.ModelMessage], info: AgentInfo) -> messages.ModelResponse:
        return messages.ModelResponse(
            parts=[messages.TextPart('{"a":'), messages.TextPart(" 1}")],
            usage=RequestUsage(input_tokens=9, cache_read_tokens=4, output_tokens=3),
            finish_reason="length",
            provider_response_id="id-1",
        )

    response = await uncaptured(answers).complete(REQUEST)
    assert (response.content, response.truncated, response.finish_reason) == ('{"a": 1}', True, "length")
    assert (response.usage.input_tokens, response.usage.cached_tokens) == (9, 4)
    assert (response.model, response.request_id) == ("function:answers:", "id-1")


async def test_with_the_guard_on_an_unseen_vendor_is_never_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_ONLY_LOOPBACK", "1")
    failure = await failure_of(AssertionError("called"))
    assert (failure.code, failure.billed) == ("provider_settings_rejected", False)


HTTP = exceptions.ModelHTTPError


@pytest.mark.parametrize(
    ("error", "code", "billed"),
    [
        (HTTP(429, "m", headers={"Retry-After": "7"}), "provider_rate_limited", False),
        (HTTP(402, "m"), "provider_quota", False),
        (HTTP(400, "m", provider_error_code="content_filter"), "provider_refused", False),
        (HTTP(403, "m"), "provider_auth", False),
        (HTTP(404, "m"), "provider_model_unknown", False),
        (HTTP(400, "m"), "provider_request_rejected", False),
        (HTTP(503, "m"), "provider_overloaded", False),
        (exceptions.ModelTimeoutError("m", "late"), "provider_timeout", True),
        (exceptions.ModelConnectionError("m", "x", phase="read"), "provider_connection", True),
        (exceptions.ModelConnectionError("m", "x", phase="connect"), "provider_connection", False),
        (exceptions.ModelAPIError("m", "x"), "provider_bad_reply", True),
        (exceptions.UnexpectedModelBehavior("x"), "provider_bad_reply", True),
        (exceptions.ContentFilterError("x"), "provider_refused", True),
        (exceptions.UserError("x"), "provider_settings_rejected", False),
        (IndexError("x"), "provider_adapter_error", True),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
async def test_what_pydantic_ai_raises_is_told_by_its_type(
    error: Exception, code: str, billed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ASSAY_ONLY_LOOPBACK", raising=False)
    failure = await failure_of(error)
    assert (failure.code, failure.billed) == (code, billed)
    if code == "provider_rate_limited":
        assert failure.retry_after == 7.0


async def test_a_far_date_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASSAY_ONLY_LOOPBACK", raising=False)
    far = HTTP(429, "m", headers={"Retry-After": "Fri, 30 Nov 2099 11:00:00 GMT"})
    failure = await failure_of(far)
    assert failure.retry_after == 3600.0
    assert failure.failure_class is FailureClass.TRANSIENT
