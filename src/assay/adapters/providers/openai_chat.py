"""The OpenAI chat-completions wire over our transport: any base URL that speaks it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from pydantic import SecretStr
from yarl import URL

from assay.adapters.providers.openai_chat_reading import read_chat_reply
from assay.adapters.providers.prices import Price, cost_function
from assay.adapters.providers.transport import MAX_RESPONSE_BYTES, Deadlines, HttpTransport
from assay.domain.failures import ConfigurationError, RequestProviderError
from assay.ports import ModelRequest, ModelResponse

OPENAI_BASE_URL: Final = "https://api.openai.com/v1"

# What a pipeline's parameters may not set: the adapter does, or cannot read the outcome.
RESERVED_PARAMETERS: Final = frozenset({"model", "messages", "n", "stream", "stream_options"})

_MAX_KEY_CHARS: Final = 255


class OpenAIChatModel:
    """A `ModelPort` for one model at one base URL (which may carry a query, kept in every call).

    Without `api_key` no Authorization header is sent. `structured_output` asks the vendor to constrain
    the answer to the contract's schema. `price` overrides the price list.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str = OPENAI_BASE_URL,
        api_key: SecretStr | None = None,
        deadlines: Deadlines | None = None,
        structured_output: bool = True,
        price: Price | None = None,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        connection_limit: int = 0,
        trust_env: bool = False,
    ) -> None:
        self._model = model
        self._url = chat_url(base_url)
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if api_key is not None:
            self._headers["Authorization"] = f"Bearer {header_safe_key(api_key)}"
        self._structured_output = structured_output
        self._cost = cost_function(price, model, base_url)
        self._transport = HttpTransport(
            deadlines,
            max_response_bytes=max_response_bytes,
            connection_limit=connection_limit,
            trust_env=trust_env,
        )

    @property
    def account(self) -> str | None:
        """The address without a key: limits are shared by whoever calls it."""
        return f"{self._url.origin()}"

    def __repr__(self) -> str:
        return f"OpenAIChatModel({self._model!r}, base_url={str(self._url.origin())!r})"

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """One call, no retries. Raises `ProviderError` subclasses; cancellation propagates."""
        fields = chat_request(self._model, request, structured_output=self._structured_output)
        reply = await self._transport.post(self._url, self._call_headers(request), _encode(fields))
        answer = read_chat_reply(reply, settings=fields.keys(), now=datetime.now(UTC))
        return ModelResponse(
            content=answer.content,
            truncated=answer.truncated,
            finish_reason=answer.finish_reason,
            usage=answer.usage,
            cost=self._cost(answer.usage),
            request_id=reply.request_id or answer.completion_id,
            status=reply.status,
            model=answer.model,
            latency_ms=reply.latency_ms,
        )

    async def aclose(self) -> None:
        """Close the connections. May be called twice."""
        await self._transport.aclose()

    def _call_headers(self, request: ModelRequest) -> dict[str, str]:
        key = request.idempotency_key
        if not (key.isascii() and key.isprintable() and len(key) <= _MAX_KEY_CHARS):
            key = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
        return {**self._headers, "Idempotency-Key": key, "X-Client-Request-Id": key}


def chat_request(model: str, request: ModelRequest, *, structured_output: bool) -> dict[str, object]:
    """The fields of the request's body. Reserved names among the parameters give way to ours."""
    fields: dict[str, object] = {
        name: value for name, value in request.parameters.items() if name not in RESERVED_PARAMETERS
    }
    fields["model"] = model
    fields["messages"] = [{"role": role, "content": content} for role, content in request.messages]
    if structured_output and request.json_schema is not None:
        fields["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": request.schema_name, "strict": True, "schema": dict(request.json_schema)},
        }
    return fields


def check_parameters(parameters: Mapping[str, object]) -> None:
    """Raises `ConfigurationError` for request parameters that can never be sent."""
    reserved = sorted(RESERVED_PARAMETERS & parameters.keys())
    if reserved:
        raise ConfigurationError(
            f"The model parameter `{reserved[0]}` is set by assay: take it out of the pipeline."
        )
    for name, value in parameters.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            raise ConfigurationError(
                f"The model parameter `{name}` is not JSON: give it as numbers, text, lists and objects."
            ) from None


def chat_url(base_url: str) -> URL:
    """The address of chat completions under a base URL. Raises `ConfigurationError`."""
    try:
        base = URL(base_url)
    except ValueError:
        base = URL()
    if base.scheme not in ("http", "https") or base.host is None:
        raise ConfigurationError("The model's base URL must look like https://host/v1: correct it.")
    if base.raw_user is not None or base.raw_password is not None:
        raise ConfigurationError(
            "The model's base URL holds a user name or password: take it out and set the key instead."
        )
    return base.with_path(base.raw_path.rstrip("/") + "/chat/completions", encoded=True).with_query(
        base.query
    )


def header_safe_key(api_key: SecretStr) -> str:
    """The key as it goes into a header. Raises `ConfigurationError`, without the key, if it cannot."""
    key = api_key.get_secret_value()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigurationError(
            "The API key is empty or holds characters that no key has: set it without spaces or line ends."
        )
    return key


def _encode(fields: Mapping[str, object]) -> bytes:
    try:
        return json.dumps(fields, allow_nan=False, separators=(",", ":")).encode("ascii")
    except (TypeError, ValueError, RecursionError):
        failure = RequestProviderError("provider_request_rejected", billed=False)
    raise failure
