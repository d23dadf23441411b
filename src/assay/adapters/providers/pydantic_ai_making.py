"""Makes models of pydantic-ai from `PROVIDER:NAME`. Imported only where a pipeline names one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Final

from pydantic import SecretStr
from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model, infer_model
from pydantic_ai.providers import Provider, infer_provider_class
from pydantic_ai.settings import ModelSettings
from yarl import URL

from assay.adapters.providers.addresses import account_name, header_safe_key, parse_base_url
from assay.adapters.providers.http_model import check_parameters
from assay.adapters.providers.prices import Price, cost_function
from assay.adapters.providers.pydantic_ai_capture import capturing_client
from assay.adapters.providers.pydantic_ai_model import PydanticAIModel
from assay.adapters.providers.transport import MAX_RESPONSE_BYTES, Deadlines
from assay.domain.failures import ConfigurationError

# Set by assay for every call, or no business of a pipeline.
RESERVED_SETTINGS: Final = frozenset(
    {"timeout", "request_timeout", "first_event_timeout", "max_retries", "extra_headers", "tool_choice"}
)

# Sent to a server of one's own that asks for no key, so that no vendor's key is taken from the environment.
_NO_KEY: Final = SecretStr("none")


def make_pydantic_ai_model(
    spec: str,
    *,
    base_url: str | None = None,
    api_key: SecretStr | None = None,
    parameters: Mapping[str, object],
    deadlines: Deadlines | None = None,
    structured_output: bool = True,
    price: Price | None = None,
    trust_env: bool = False,
    max_response_bytes: int = MAX_RESPONSE_BYTES,
) -> PydanticAIModel:
    """The model that `PROVIDER:NAME` names. Raises `ConfigurationError`, which says what to do.

    `parameters` are pydantic-ai's model settings. `api_key` goes to the provider, or to `base_url`; without
    one the provider takes its own from the environment, but never for another base URL.
    """
    kind, _, name = spec.partition(":")
    limits = deadlines or Deadlines()
    client = capturing_client(limits, trust_env=trust_env)
    arguments = _arguments(_provider_class(kind), kind, base_url, api_key)
    captured = "http_client" in inspect.signature(_provider_class(kind)).parameters
    if captured:
        arguments["http_client"] = client
    model = _model(kind, name, lambda: _provider_class(kind)(**arguments))
    check_parameters(parameters, RESERVED_SETTINGS)
    _check_settings(model, parameters)
    address = base_url or model.base_url or f"https://{kind}.invalid"
    return PydanticAIModel(
        model,
        account=account_name(URL(address), api_key),
        cost=cost_function(price, name, address),
        settings={**parameters, **_guarantees(model, limits)},
        deadlines=limits,
        structured_output=structured_output,
        captured=captured,
        close=client.aclose,
        max_response_bytes=max_response_bytes,
    )


def _provider_class(kind: str) -> Callable[..., Provider[object]]:
    try:
        return infer_provider_class(kind)
    except ValueError:
        raise ConfigurationError(
            f"pydantic-ai knows no provider {kind!r}: write pydantic-ai:PROVIDER:NAME, for example"
            " pydantic-ai:google:gemini-2.5-flash."
        ) from None
    except ImportError as error:
        raise _not_installed(kind) from error


def _arguments(
    make: Callable[..., object], kind: str, base_url: str | None, api_key: SecretStr | None
) -> dict[str, object]:
    known = inspect.signature(make).parameters
    arguments: dict[str, object] = {}
    if base_url is not None:
        parse_base_url(base_url)
        if "base_url" not in known:
            raise ConfigurationError(
                f"The provider {kind!r} takes no base URL: leave it out, or use openai: with the base URL."
            )
        arguments["base_url"] = base_url
    key = api_key if api_key is not None or base_url is None else _NO_KEY
    if key is not None and "api_key" in known:
        arguments["api_key"] = header_safe_key(key)
    return arguments


def _model(kind: str, name: str, make: Callable[[], Provider[object]]) -> Model:
    try:
        return infer_model(f"{kind}:{name}", provider_factory=lambda _: make())
    except UserError as error:
        raise ConfigurationError(
            f"The provider {kind!r} cannot be used: {str(error).splitlines()[0]}"
        ) from error
    except ImportError as error:
        raise _not_installed(kind) from error


def _not_installed(kind: str) -> ConfigurationError:
    return ConfigurationError(
        f"The provider {kind!r} needs a package that is missing: pip install 'pydantic-ai-slim[{kind}]'."
    )


def _check_settings(model: Model, parameters: Mapping[str, object]) -> None:
    """Raises `ConfigurationError` for a setting that pydantic-ai would drop without a word."""
    known = set(ModelSettings.__annotations__)
    for kind in type(model).__mro__:
        module = inspect.getmodule(kind)
        for found in vars(module).values() if module is not None else ():
            if isinstance(found, type) and found.__name__.endswith("ModelSettings"):
                known |= set(found.__annotations__)
    for name in parameters:
        if name not in known:
            raise ConfigurationError(
                f"{type(model).__name__} of pydantic-ai has no setting `{name}`: name one that it has,"
                " or put it under `extra_body`."
            )


def _guarantees(model: Model, deadlines: Deadlines) -> dict[str, object]:
    """No retries and no patience beyond the deadline, as far as the model takes such settings."""
    wanted: dict[str, object] = {"max_retries": 0, "timeout": deadlines.read}
    return {name: value for name, value in wanted.items() if name not in model.unsupported_settings}
