"""From a model spec in a pipeline file to the adapter: `openai:NAME`, `recorded:FILE#COLUMN` and others."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

from pydantic import SecretStr

from assay.adapters.providers import anthropic_messages, openai_chat, openai_responses
from assay.adapters.providers.anthropic_messages import (
    ANTHROPIC_BASE_URL,
    DEFAULT_ANSWER_BYTES,
    AnthropicModel,
)
from assay.adapters.providers.http_model import check_parameters
from assay.adapters.providers.keys import MODEL_KEY, resolve_key
from assay.adapters.providers.openai_chat import OPENAI_BASE_URL, OpenAIChatModel
from assay.adapters.providers.openai_responses import OpenAIResponsesModel
from assay.adapters.providers.prices import Price, listed_price
from assay.adapters.providers.recorded import RecordedModel, parse_recorded
from assay.adapters.providers.transport import Deadlines
from assay.domain.failures import ConfigurationError
from assay.ports import ModelPort

SPEC_FORMS: Final = (
    "openai:NAME",
    "openai-responses:NAME",
    "anthropic:NAME",
    "pydantic-ai:PROVIDER:NAME",
    "recorded:FILE#COLUMN",
)

_BASE_URLS: Final = {
    "openai": OPENAI_BASE_URL,
    "openai-responses": OPENAI_BASE_URL,
    "anthropic": ANTHROPIC_BASE_URL,
}
_RESERVED: Final = {
    "openai": openai_chat.RESERVED_PARAMETERS,
    "openai-responses": openai_responses.RESERVED_PARAMETERS,
    "anthropic": anthropic_messages.RESERVED_PARAMETERS,
}


def listed_price_of(spec: str, base_url: str | None) -> Price | None:
    """The price list's price for a model spec at its address; None where it is not known."""
    kind, _, name = spec.partition(":")
    address = base_url if base_url is not None else _BASE_URLS.get(kind)
    return listed_price(name, address) if kind in _BASE_URLS and address is not None else None


def make_model(
    spec: str,
    *,
    base_dir: Path,
    base_url: str | None = None,
    parameters: Mapping[str, object] | None = None,
    label_field: str | None = None,
    only_field: bool = False,
    structured_output: bool = True,
    price: Price | None = None,
    deadlines: Deadlines | None = None,
    trust_env: bool = False,
    environment: Mapping[str, str] | None = None,
    answer_bytes: int = DEFAULT_ANSWER_BYTES,
) -> ModelPort:
    """The adapter for a model spec. Raises `ConfigurationError`, which says what to do.

    `base_dir` is where relative files are looked for: the folder of the pipeline file. `parameters` are
    checked here and sent with each request. `label_field` is the contract's label, `only_field` whether it
    is the only field that the contract requires, `answer_bytes` its limit for an answer. `environment` holds
    the API key (default: the process's).
    """
    kind, colon, name = spec.partition(":")
    if colon and name and kind == "recorded":
        recorded = parse_recorded(name)
        return RecordedModel(
            base_dir / recorded.file,
            recorded.column,
            id_column=recorded.id_column,
            label_field=label_field if only_field else None,
        )
    keys = os.environ if environment is None else environment
    if colon and name and kind in _RESERVED:
        check_parameters(parameters or {}, _RESERVED[kind])
        address = base_url if base_url is not None else _BASE_URLS[kind]
        api_key = resolve_key(address, keys)
        if kind == "anthropic":
            return AnthropicModel(
                name, base_url=address, api_key=api_key, deadlines=deadlines, price=price,
                trust_env=trust_env, structured_output=structured_output, answer_bytes=answer_bytes,
            )  # fmt: skip
        make = OpenAIChatModel if kind == "openai" else OpenAIResponsesModel
        return make(
            name, base_url=address, api_key=api_key, deadlines=deadlines, price=price, trust_env=trust_env,
            structured_output=structured_output,
        )  # fmt: skip
    if colon and kind == "pydantic-ai" and all(name.partition(":")):
        own_key = keys.get(MODEL_KEY)
        return _pydantic_ai()(
            name,
            base_url=base_url,
            api_key=SecretStr(own_key) if own_key else None,
            parameters=parameters or {},
            deadlines=deadlines,
            structured_output=structured_output,
            price=price,
            trust_env=trust_env,
        )
    raise ConfigurationError(
        f"{spec!r} is no model that assay knows: write it as one of {', '.join(SPEC_FORMS)}."
    )


class _MakePydanticAI(Protocol):
    def __call__(
        self,
        spec: str,
        *,
        base_url: str | None,
        api_key: SecretStr | None,
        parameters: Mapping[str, object],
        deadlines: Deadlines | None,
        structured_output: bool,
        price: Price | None,
        trust_env: bool,
    ) -> ModelPort: ...


def _pydantic_ai() -> _MakePydanticAI:
    """The maker of models that pydantic-ai calls: it is imported when a pipeline asks for it."""
    try:
        module = importlib.import_module("assay.adapters.providers.pydantic_ai_making")
    except ImportError as error:
        raise ConfigurationError(
            "Models of pydantic-ai need pydantic-ai: `pip install 'pydantic-ai-slim[openai]'` in this "
            "environment (the extra `providers`)."
        ) from error
    make: _MakePydanticAI = module.make_pydantic_ai_model
    return make
