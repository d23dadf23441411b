"""From a model spec to the adapter: forms, keys, prices, and errors that say what to do."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from types import ModuleType

import pytest

from assay.adapters.providers.factory import make_model, resolve_key
from assay.adapters.providers.openai_chat import OpenAIChatModel, chat_url
from assay.adapters.providers.prices import cost_function
from assay.adapters.providers.recorded import RecordedModel
from assay.domain.failures import ConfigurationError
from assay.ports import ModelRequest, Usage

KEYS = {"OPENAI_API_KEY": "sk-openai", "ASSAY_MODEL_API_KEY": "sk-own"}


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


def test_a_label_among_other_required_fields_is_not_wrapped(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,answer\nx,billing\n")
    model = make_model("recorded:a.csv#answer", base_dir=tmp_path, label_field="category", only_field=False)
    response = asyncio.run(model.complete(ModelRequest("a.csv:1", 1, (), None, "S", {}, "k")))
    asyncio.run(model.aclose())
    assert response.content == "billing"


@pytest.mark.parametrize("spec", ["gpt-5-mini", "anthropic:x", "openai:", "recorded:", "", "OPENAI:x"])
def test_an_unknown_spec_names_those_that_are_known(spec: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"openai:NAME, recorded:FILE#COLUMN"):
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
    ],
)
def test_the_vendors_key_goes_to_the_vendor_alone(
    base_url: str, environment: dict[str, str], key: str | None
) -> None:
    found = resolve_key(base_url, environment)
    assert (found.get_secret_value() if found else None) == key
    assert "sk-" not in repr(found)


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
    ],
)
def test_the_address_is_under_the_base_url(base_url: str, address: str) -> None:
    assert str(chat_url(base_url)) == address


@pytest.mark.parametrize("base_url", ["", "localhost:8000", "ftp://h/v1", "/v1", "http://", "http://h:port/"])
def test_a_base_url_that_is_none_is_refused(base_url: str) -> None:
    with pytest.raises(ConfigurationError, match="base URL"):
        chat_url(base_url)


def test_a_base_url_with_a_password_is_refused_unseen() -> None:
    with pytest.raises(ConfigurationError, match="user name") as caught:
        chat_url("https://user:hunter2@host/v1")
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
    assert cost(Usage(1, 1)) == Decimal("0.0000004")
    assert cost(Usage(0, 0)) == Decimal(0)
    assert cost(Usage(None, 1)) is None
    assert cost(Usage(1, None)) is None


def test_without_price_or_list_the_cost_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    assert cost_function(None, "gpt-5-mini", "https://api.openai.com/v1")(Usage(1, 1)) is None


def test_the_price_list_is_asked_once_per_model(monkeypatch: pytest.MonkeyPatch) -> None:
    lookups: list[str] = []
    list_of_one(monkeypatch, lookups)
    cost = cost_function(None, "gpt-5-mini", "https://api.openai.com/v1")
    assert cost(Usage(1000, 100, cached_tokens=200)) == Decimal(1000 + 10 * 100 - 200)
    assert cost(Usage(1000, 100)) == Decimal(1000 + 10 * 100)
    assert cost(Usage(1000, None)) is None
    assert cost(Usage(10, 1, cached_tokens=20)) is None
    assert lookups == ["gpt-5-mini"]
    assert cost_function(None, "another", "https://api.openai.com/v1")(Usage(1, 1)) is None


def list_of_one(monkeypatch: pytest.MonkeyPatch, lookups: list[str]) -> None:
    """Stand in for the optional price list, which the test environment does not install."""

    @dataclass
    class Tokens:
        input_tokens: int
        output_tokens: int
        cache_read_tokens: int

    @dataclass
    class Calculation:
        total_price: Decimal

    class Listed:
        def calc_price(self, usage: Tokens, provider: str) -> Calculation:
            return Calculation(
                Decimal(usage.input_tokens + 10 * usage.output_tokens - usage.cache_read_tokens)
            )

    class Snapshot:
        def find_provider_model(
            self, model: str, provider: None, provider_id: None, url: str
        ) -> tuple[str, Listed]:
            lookups.append(model)
            if model != "gpt-5-mini":
                raise LookupError
            return "openai", Listed()

    package, data = ModuleType("genai_prices"), ModuleType("genai_prices.data_snapshot")
    monkeypatch.setattr(package, "Usage", Tokens, raising=False)
    monkeypatch.setattr(data, "get_snapshot", Snapshot, raising=False)
    monkeypatch.setitem(sys.modules, "genai_prices", package)
    monkeypatch.setitem(sys.modules, "genai_prices.data_snapshot", data)
