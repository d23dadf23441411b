"""Each vendor's manners over a socket: Azure's deployments, Anthropic's headers, servers without a key."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from assay.adapters.providers.factory import make_model
from assay.domain.failures import ProviderError
from assay.ports import ModelRequest
from providers_fault_server import FaultServer, Seen, always, completion, fault_server, http

REQUEST = ModelRequest("r", 1, (("system", "Label it."), ("user", "text")), None, "S", {}, "k")
OWN = {"ASSAY_MODEL_API_KEY": "sk-own", "OPENAI_API_KEY": "sk-openai", "ANTHROPIC_API_KEY": "sk-ant"}
MESSAGE = {"type": "message", "content": [{"type": "text", "text": "{}"}], "stop_reason": "end_turn"}


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FaultServer]:
    monkeypatch.setenv("ASSAY_ONLY_LOOPBACK", "1")
    chat = always(http(200, completion()))
    async with fault_server({"openai": chat, "ollama": chat, "m": always(http(200, MESSAGE))}) as running:
        yield running


async def seen(server: FaultServer, spec: str, path: str, environment: dict[str, str]) -> Seen:
    address = f"http://127.0.0.1:{server.port}{path}"
    model = make_model(spec, base_dir=Path(), base_url=address, environment=environment, answer_bytes=100)
    try:
        await model.complete(REQUEST)
    finally:
        await model.aclose()
    return server.seen[-1]


async def test_azure_has_the_deployment_in_the_path_and_its_own_header(server: FaultServer) -> None:
    path = "/openai/deployments/gpt-4o?api-version=2024-10-21"
    request = await seen(server, "openai:gpt-4o", path, OWN)
    assert request.path == "/openai/deployments/gpt-4o/chat/completions?api-version=2024-10-21"
    assert request.headers["api-key"] == "sk-own"
    assert "authorization" not in request.headers


async def test_anthropic_wants_its_version_and_a_limit(server: FaultServer) -> None:
    request = await seen(server, "anthropic:small", "/m", OWN)
    assert request.path == "/m/v1/messages"
    assert request.headers["x-api-key"] == "sk-own"
    assert request.headers["anthropic-version"] == "2023-06-01"
    assert request.body == {
        "model": "small",
        "max_tokens": 100,
        "system": "Label it.",
        "messages": [{"role": "user", "content": "text"}],
    }


@pytest.mark.parametrize(("spec", "path"), [("openai:llama3", "/ollama/v1"), ("anthropic:small", "/m/v1")])
async def test_a_server_of_ones_own_gets_no_vendors_key(spec: str, path: str, server: FaultServer) -> None:
    vendors = {"OPENAI_API_KEY": "sk-openai", "ANTHROPIC_API_KEY": "sk-ant"}
    request = await seen(server, spec, path, vendors)
    assert "sk-" not in str(request)
    assert not {"authorization", "api-key", "x-api-key"} & request.headers.keys()


async def test_a_model_without_answer_says_so_by_type(server: FaultServer) -> None:
    server.scenarios["other"] = always(http(200, MESSAGE))
    with pytest.raises(ProviderError) as caught:
        await seen(server, "openai:x", "/other/v1", {})
    assert caught.value.code == "provider_bad_reply", "Anthropic's reply is none of OpenAI's"
