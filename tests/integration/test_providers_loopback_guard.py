"""No test can reach a paid API: the guard refuses every host but this machine, and redirects go nowhere."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from pydantic import SecretStr
from yarl import URL

from assay.adapters.providers.loopback import is_loopback
from assay.adapters.providers.openai_chat import OpenAIChatModel
from assay.adapters.providers.transport import Deadlines
from assay.domain.failures import ConfigurationProviderError
from assay.ports import ModelRequest, ModelResponse
from providers_fault_server import CONTENT, FaultServer, always, completion, fault_server, http

REQUEST = ModelRequest("r", 1, (("user", "x"),), None, "S", {}, "k")
DEADLINES = Deadlines(total=0.5, connect=0.3, read=0.3)


@pytest.fixture
async def server() -> AsyncIterator[FaultServer]:
    async with fault_server({"good": always(http(200, completion()))}) as running:
        yield running


async def call(base_url: str, *, trust_env: bool = False) -> ModelResponse:
    model = OpenAIChatModel(
        "m", base_url=base_url, api_key=SecretStr("sk-secret"), deadlines=DEADLINES, trust_env=trust_env
    )
    try:
        return await model.complete(REQUEST)
    finally:
        await model.aclose()


async def refused(base_url: str, *, trust_env: bool = False) -> ConfigurationProviderError:
    with pytest.raises(ConfigurationProviderError) as caught:
        await call(base_url, trust_env=trust_env)
    return caught.value


async def test_the_guard_refuses_before_connecting(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 0.0.0.0 reaches this machine but is no loopback address: the server can tell whether it was called.
    elsewhere = server.base_url("good").replace("127.0.0.1", "0.0.0.0")
    monkeypatch.setenv("ASSAY_ONLY_LOOPBACK", "0")
    assert (await call(elsewhere)).content == CONTENT, "the control: without the guard the call arrives"
    assert server.connections == 1
    monkeypatch.setenv("ASSAY_ONLY_LOOPBACK", "1")
    failure = await refused(elsewhere)
    assert (failure.code, failure.billed) == ("provider_settings_rejected", False)
    assert server.connections == 1
    assert (await call(server.base_url("good"))).content == CONTENT


async def test_the_guard_refuses_the_default_vendor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_ONLY_LOOPBACK", "1")
    assert (await refused("https://api.openai.com/v1")).billed is False


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(
    status: int, server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_ONLY_LOOPBACK", "1")
    async with fault_server({"good": always(http(200, completion()))}) as other:
        for target in (other.base_url("good") + "/chat/completions", "https://api.openai.com/v1"):
            server.scenarios["moved"] = always(http(status, b"", Location=target))
            failure = await refused(server.base_url("moved"))
            assert (failure.code, failure.status) == ("provider_settings_rejected", status)
        assert other.connections == 0
    assert len(server.seen) == 2


async def test_the_guard_refuses_a_proxy(server: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_ONLY_LOOPBACK", "1")
    await refused(server.base_url("good"), trust_env=True)
    assert server.connections == 0


async def test_a_proxy_of_the_environment_is_used_only_when_told(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_ONLY_LOOPBACK", "0")
    monkeypatch.setenv("no_proxy", "")
    # A proxy is asked for the whole address, whose first segment ("http://host") is empty.
    async with fault_server({"": always(http(200, completion()))}) as proxy:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        await call(server.base_url("good"))
        assert (server.connections, proxy.connections) == (1, 0)
        await call(server.base_url("good"), trust_env=True)
        assert (server.connections, proxy.connections) == (1, 1)


@pytest.mark.parametrize(
    ("url", "loopback"),
    [
        ("http://localhost:8000/v1", True),
        ("http://LOCALHOST/v1", True),
        ("http://127.0.0.1/", True),
        ("http://127.8.9.1/", True),
        ("http://[::1]:80/", True),
        ("http://localhost.example.com/", False),
        ("http://127.0.0.1.example.com/", False),
        ("http://127.0.0.1@example.com/", False),
        ("http://example.com#@localhost", False),
        ("http://0.0.0.0/", False),
        ("http://10.0.0.1/", False),
        ("http://2130706433/", False),
        ("http://[::]/", False),
        ("http://[::ffff:8.8.8.8]/", False),
        ("http://localhost\u2024example.com/", False),
        ("/v1", False),
    ],
)
def test_only_literal_loopback_hosts_pass(url: str, loopback: bool) -> None:
    assert is_loopback(URL(url)) is loopback
