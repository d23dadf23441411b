"""From a model spec to the adapter: forms, keys, prices, and errors that say what to do."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import pytest

from assay.adapters.providers.addresses import anthropic_url, openai_url
from assay.adapters.providers.answers import Tokens
from assay.adapters.providers.anthropic_messages import AnthropicModel
from assay.adapters.providers.factory import make_model
from assay.adapters.providers.keys import resolve_key
from assay.adapters.providers.openai_chat import OpenAIChatModel
from assay.adapters.providers.openai_responses import OpenAIResponsesModel
from assay.adapters.providers.prices import cost_function, listed_price
from assay.adapters.providers.pydantic_ai_model import PydanticAIModel
from assay.adapters.providers.recorded import RecordedModel
from assay.domain.failures import ConfigurationError
from assay.ports import ModelRequest

KEYS = {"OPENAI_API_KEY": "sk-openai", "ANTHROPIC_API_KEY": "sk-ant", "ASSAY_MODEL_API_KEY": "sk-own"}


@dataclass(frozen=True)
class StatedPrice:
    input_per_million: Decimal
    output_per_million: Decimal


def test_the_two_forms_make_their_adapters(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,answer\nx,billing\n")
    recorded = make_model("recorded:a.csv#answer", base_dir=tmp_path, label_field="category", only_field=True)
    chat = make_model("openai:org/model:tag", base_dir=tmp_path, environment=KEYS)
    assert isinstance(recorded, RecordedModel)
    assert isinstance(chat, OpenAIChatModel)
    assert repr(chat) == "OpenAIChatModel('org/model:tag', base_url='https://api.openai.com')"
    response = asyncio.run(recorded.complete(ModelRequest("a.csv:1", 1, (), None, "S", {}, "k")))
    assert response.content == '{"category": "billing"}'
    asyncio.run(recorded.aclose())
    asyncio.run(chat.aclose())


@pytest.mark.parametrize(
    ("spec", "kind"),
    [("openai-responses:m", OpenAIResponsesModel), ("anthropic:m", AnthropicModel)],
)
def test_each_wire_has_its_form(spec: str, kind: type, tmp_path: Path) -> None:
    model = make_model(spec, base_dir=tmp_path, base_url="http://127.0.0.1:1/v1", environment=KEYS)
    assert type(model) is kind
    asyncio.run(model.aclose())


def test_other_vendors_come_through_pydantic_ai(tmp_path: Path) -> None:
    model = make_model(
        "pydantic-ai:openai-chat:a:b", base_dir=tmp_path, base_url="http://127.0.0.1:1/v1", environment=KEYS
    )
    assert isinstance(model, PydanticAIModel)
    assert repr(model) == "PydanticAIModel(openai:a:b)"
    assert model.account.startswith("http://127.0.0.1:1#")
    asyncio.run(model.aclose())


def test_without_the_extra_the_error_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "assay.adapters.providers.pydantic_ai_making", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'pydantic-ai-slim.*extra `providers`"):
        make_model("pydantic-ai:google:gemini-2.5-flash", base_dir=tmp_path, environment=KEYS)


@pytest.mark.parametrize(
    ("spec", "parameters", "said"),
    [
        ("pydantic-ai:nobody:x", {}, "knows no provider 'nobody'"),
        ("pydantic-ai:openai-chat:x", {"temprature": 1}, "no setting `temprature`"),
        ("pydantic-ai:openai-chat:x", {"max_retries": 1}, "`max_retries` is set by assay"),
        ("anthropic:x", {"system": "y"}, "`system` is set by assay"),
        ("openai-responses:x", {"background": True}, "`background` is set by assay"),
    ],
)
def test_what_cannot_work_is_refused_at_the_start(
    spec: str, parameters: dict[str, object], said: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        make_model(
            spec, base_dir=tmp_path, base_url="http://127.0.0.1:1/v1", parameters=parameters, environment=KEYS
        )


def test_a_label_among_other_required_fields_is_not_wrapped(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,answer\nx,billing\n")
    model = make_model("recorded:a.csv#answer", base_dir=tmp_path, label_field="category", only_field=False)
    response = asyncio.run(model.complete(ModelRequest("a.csv:1", 1, (), None, "S", {}, "k")))
    asyncio.run(model.aclose())
    assert response.content == "billing"


@pytest.mark.parametrize(
    "spec",
    ["gpt-5-mini", "mistral:x", "openai:", "anthropic:", "pydantic-ai:x", "pydantic-ai::x", "recorded:", "",
     "OPENAI:x"],
)  # fmt: skip
def test_an_unknown_spec_names_those_that_are_known(spec: str, tmp_path: Path) -> None:
    with pytest.raises(
        ConfigurationError,
        match=r"openai:NAME, openai-responses:NAME, anthropic:NAME, pydantic-ai:PROVIDER:NAME, recorded:",
    ):
        make_model(spec, base_dir=tmp_path, environment=KEYS)


def test_a_missing_key_says_what_to_set(tmp_path: Path) -> None:
    for environment in ({}, {"OPENAI_API_KEY": ""}):
        with pytest.raises(ConfigurationError, match="set OPENAI_API_KEY"):
            make_model("openai:gpt-5-mini", base_dir=tmp_path, environment=environment)


@pytest.mark.parametrize(
    ("base_url", "environment", "key"),
    [
        ("https://api.openai.com/v1", {"OPENAI_API_KEY": "sk-openai"}, "sk-openai"),
        ("https://eu.api.openai.com/v1", {"OPENAI_API_KEY": "sk-openai"}, "sk-openai"),
        ("https://api.openai.com/v1", KEYS, "sk-own"),
        ("http://localhost:8000/v1", KEYS, "sk-own"),
        ("http://localhost:8000/v1", {"OPENAI_API_KEY": "sk-openai"}, None),
        ("https://api.openai.com.example.com/v1", {"OPENAI_API_KEY": "sk-openai"}, None),
        ("https://fakeapi.openai.com.example.com/v1", {}, None),
        ("https://api.anthropic.com/v1", {"ANTHROPIC_API_KEY": "sk-ant"}, "sk-ant"),
        ("https://api.anthropic.com/v1", KEYS, "sk-own"),
        ("https://example.com/anthropic", {"ANTHROPIC_API_KEY": "sk-ant"}, None),
        ("https://x.openai.azure.com", {"OPENAI_API_KEY": "sk-openai"}, None),
    ],
)
def test_the_vendors_key_goes_to_the_vendor_alone(
    base_url: str, environment: dict[str, str], key: str | None
) -> None:
    found = resolve_key(base_url, environment)
    assert (found.get_secret_value() if found else None) == key
    assert "sk-" not in repr(found)


def test_a_vendors_key_never_travels_in_the_clear() -> None:
    for host in ("api.openai.com", "api.anthropic.com"):
        with pytest.raises(ConfigurationError, match="https"):
            resolve_key(f"http://{host}/v1", KEYS)


@pytest.mark.parametrize("key", ["sk-se cret", "sk-secret\n", "sk-sécret", "\x00"])
def test_a_key_that_no_header_can_hold_is_refused_unseen(key: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="set it without spaces") as caught:
        make_model("openai:x", base_dir=tmp_path, environment={"OPENAI_API_KEY": key})
    assert key not in str(caught.value)


@pytest.mark.parametrize(
    ("base_url", "address"),
    [
        ("https://api.openai.com/v1", "https://api.openai.com/v1/chat/completions"),
        ("http://localhost:8000/v1/", "http://localhost:8000/v1/chat/completions"),
        ("http://localhost", "http://localhost/chat/completions"),
        ("https://h/d/gpt%2F4?api-version=1", "https://h/d/gpt%2F4/chat/completions?api-version=1"),
        ("http://h/v1/chat/completions", "http://h/v1/chat/completions"),
        (
            "https://x.openai.azure.com?api-version=2024-10-21",
            "https://x.openai.azure.com/openai/deployments/gpt-4o/chat/completions?api-version=2024-10-21",
        ),
        ("https://x.openai.azure.com/", "https://x.openai.azure.com/openai/v1/chat/completions"),
    ],
)
def test_the_address_is_under_the_base_url(base_url: str, address: str) -> None:
    assert str(openai_url(base_url, "chat/completions", "gpt-4o")) == address


@pytest.mark.parametrize(
    ("base_url", "address"),
    [
        ("https://api.anthropic.com/v1", "https://api.anthropic.com/v1/messages"),
        ("http://127.0.0.1:1", "http://127.0.0.1:1/v1/messages"),
        (
            "https://x.services.ai.azure.com/anthropic/",
            "https://x.services.ai.azure.com/anthropic/v1/messages",
        ),
        ("http://h/v1/messages?beta=true", "http://h/v1/messages?beta=true"),
    ],
)
def test_messages_are_found_with_or_without_the_version(base_url: str, address: str) -> None:
    assert str(anthropic_url(base_url)) == address


@pytest.mark.parametrize("base_url", ["", "localhost:8000", "ftp://h/v1", "/v1", "http://", "http://h:port/"])
def test_a_base_url_that_is_none_is_refused(base_url: str) -> None:
    with pytest.raises(ConfigurationError, match="base URL"):
        openai_url(base_url, "chat/completions", "m")
    with pytest.raises(ConfigurationError, match="base URL"):
        anthropic_url(base_url)


def test_a_base_url_with_a_password_is_refused_unseen() -> None:
    with pytest.raises(ConfigurationError, match="user name") as caught:
        anthropic_url("https://user:hunter2@host/v1")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("parameters", "said"),
    [({"stream": True}, "`stream` is set by assay"), ({"top_p": float("nan")}, "`top_p` is not JSON")],
)
def test_parameters_that_cannot_be_sent_are_refused(
    parameters: dict[str, object], said: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        make_model("openai:x", base_dir=tmp_path, parameters=parameters, environment=KEYS)


def test_a_stated_price_is_exact_and_needs_both_counts() -> None:
    cost = cost_function(StatedPrice(Decimal("0.1"), Decimal("0.3")), "m", "http://localhost/v1")
    assert cost(Tokens(1, 1)) == Decimal("0.0000004")
    assert cost(Tokens(0, 0)) == Decimal(0)
    assert cost(Tokens(None, 1)) is None
    assert cost(Tokens(1, None)) is None


def test_without_price_or_list_the_cost_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    assert cost_function(None, "gpt-5-mini", "https://api.openai.com/v1")(Tokens(1, 1)) is None
    assert listed_price("gpt-5-mini", "https://api.openai.com/v1") is None
