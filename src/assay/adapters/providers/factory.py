"""From a model spec in a pipeline file to the adapter: `openai:NAME`, `recorded:FILE#COLUMN`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pydantic import SecretStr
from yarl import URL

from assay.adapters.providers.openai_chat import OPENAI_BASE_URL, OpenAIChatModel, chat_url, check_parameters
from assay.adapters.providers.prices import Price
from assay.adapters.providers.recorded import RecordedModel, parse_recorded
from assay.adapters.providers.transport import Deadlines
from assay.domain.failures import ConfigurationError
from assay.ports import ModelPort

MODEL_KEY: Final = "ASSAY_MODEL_API_KEY"
OPENAI_KEY: Final = "OPENAI_API_KEY"
SPEC_FORMS: Final = ("openai:NAME", "recorded:FILE#COLUMN")

_OPENAI_HOST: Final = "api.openai.com"


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
) -> ModelPort:
    """The adapter for a model spec. Raises `ConfigurationError`, which says what to do.

    `base_dir` is where relative files are looked for: the folder of the pipeline file. `parameters` are
    checked here and sent with each request. `label_field` is the contract's label, `only_field` whether it
    is the only field that the contract requires. `environment` holds the API key (default: the process's).
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
    if colon and name and kind == "openai":
        address = base_url if base_url is not None else OPENAI_BASE_URL
        check_parameters(parameters or {})
        return OpenAIChatModel(
            name,
            base_url=address,
            api_key=resolve_key(address, os.environ if environment is None else environment),
            deadlines=deadlines,
            structured_output=structured_output,
            price=price,
            trust_env=trust_env,
        )
    raise ConfigurationError(
        f"{spec!r} is no model that assay knows: write it as one of {', '.join(SPEC_FORMS)}."
    )


def resolve_key(base_url: str, environment: Mapping[str, str]) -> SecretStr | None:
    """The API key for a base URL; None where a server of one's own needs none.

    ASSAY_MODEL_API_KEY goes to whatever server the pipeline names. OPENAI_API_KEY goes to OpenAI alone,
    never to another base URL. Raises `ConfigurationError` where OpenAI is named and no key is set.
    """
    key = environment.get(MODEL_KEY)
    if _is_openai(chat_url(base_url)):
        key = key or environment.get(OPENAI_KEY)
        if not key:
            raise ConfigurationError(
                f"No API key for {_OPENAI_HOST}: set {OPENAI_KEY} (or {MODEL_KEY}),"
                " or give the model a base URL of your own."
            )
    return SecretStr(key) if key else None


def _is_openai(url: URL) -> bool:
    host = url.host or ""
    return host == _OPENAI_HOST or host.endswith(f".{_OPENAI_HOST}")
