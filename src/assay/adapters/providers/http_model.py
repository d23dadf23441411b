"""A model behind HTTP: one wire format over our transport."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, Protocol

from pydantic import SecretStr
from yarl import URL

from assay.adapters.providers.addresses import account_name
from assay.adapters.providers.answers import Answer, Tokens
from assay.adapters.providers.prices import CostOf, Price, cost_function
from assay.adapters.providers.rate_limit_headers import read_rate_limits
from assay.adapters.providers.transport import MAX_RESPONSE_BYTES, Deadlines, HttpReply, HttpTransport
from assay.domain.failures import ConfigurationError, ProviderError, RequestProviderError
from assay.ports import ModelRequest, ModelResponse

_MAX_KEY_CHARS: Final = 255


class Wire(Protocol):
    """A vendor's wire format. `reserved` are request parameters that a pipeline may not set."""

    @property
    def reserved(self) -> frozenset[str]: ...

    def fields(self, request: ModelRequest) -> dict[str, object]:
        """The fields of the request's body. Reserved names among the parameters give way to ours."""
        ...

    def read(self, reply: HttpReply, *, settings: Collection[str], now: datetime) -> Answer:
        """The answer in a reply. Raises `ProviderError` subclasses."""
        ...


class HttpModel:
    """A `ModelPort` for one wire at one address. `headers` go with every call, the key among them."""

    def __init__(
        self,
        model: str,
        wire: Wire,
        url: URL,
        headers: Mapping[str, str],
        *,
        base_url: str,
        api_key: SecretStr | None = None,
        deadlines: Deadlines | None = None,
        price: Price | None = None,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        connection_limit: int = 0,
        trust_env: bool = False,
    ) -> None:
        self._model = model
        self._wire = wire
        self._url = url
        self._headers = {"Content-Type": "application/json", "Accept": "application/json", **headers}
        self._account = account_name(url, api_key)
        self._cost = cost_function(price, model, base_url)
        self._transport = HttpTransport(
            deadlines,
            max_response_bytes=max_response_bytes,
            connection_limit=connection_limit,
            trust_env=trust_env,
        )

    @property
    def account(self) -> str:
        """Address and a digest of the key: all who call with this key share the vendor's limits."""
        return self._account

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._model!r}, base_url={str(self._url.origin())!r})"

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """One call, no retries. Raises `ProviderError` subclasses; cancellation propagates."""
        started = time.perf_counter()
        try:
            fields = self._wire.fields(request)
            reply = await self._transport.post(self._url, self._call_headers(request), _encode(fields))
            now = datetime.now(UTC)
            answer = self._wire.read(reply, settings=fields.keys(), now=now)
        except ProviderError as failure:
            complete_failure(failure, self._cost, (time.perf_counter() - started) * 1000.0)
            raise
        return respond(answer, reply, self._cost, now)

    async def aclose(self) -> None:
        """Close the connections. May be called twice."""
        await self._transport.aclose()

    def _call_headers(self, request: ModelRequest) -> dict[str, str]:
        key = header_safe_idempotency_key(request.idempotency_key)
        return {**self._headers, "Idempotency-Key": key, "X-Client-Request-Id": key}


def respond(answer: Answer, reply: HttpReply, cost: CostOf, now: datetime) -> ModelResponse:
    """What the pipeline gets of an answer that was read from a reply."""
    return ModelResponse(
        content=answer.content,
        truncated=answer.truncated,
        finish_reason=answer.finish_reason,
        usage=answer.usage,
        cost=cost(answer.tokens),
        request_id=reply.request_id or answer.reply_id,
        status=reply.status,
        model=answer.model,
        latency_ms=reply.latency_ms,
        rate_limits=read_rate_limits(reply.headers, now),
    )


def complete_failure(failure: ProviderError, cost: CostOf, latency_ms: float) -> None:
    """Add to a failure what only the adapter knows: how long it took, and what its tokens cost."""
    failure.latency_ms = latency_ms
    spent = failure.spent
    if spent is not None:
        tokens = Tokens(
            spent.input_tokens,
            spent.output_tokens,
            spent.cached_tokens,
            spent.reasoning_tokens,
            spent.cache_write_tokens,
        )
        failure.spent = replace(spent, cost=cost(tokens))


def header_safe_idempotency_key(key: str) -> str:
    """The key, or its SHA-256 where no header can hold it."""
    if key.isascii() and key.isprintable() and len(key) <= _MAX_KEY_CHARS:
        return key
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def check_parameters(parameters: Mapping[str, object], reserved: frozenset[str]) -> None:
    """Raises `ConfigurationError` for request parameters that can never be sent."""
    taken = sorted(reserved & parameters.keys())
    if taken:
        raise ConfigurationError(
            f"The model parameter `{taken[0]}` is set by assay: take it out of the pipeline."
        )
    for name, value in parameters.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            raise ConfigurationError(
                f"The model parameter `{name}` is not JSON: give it as numbers, text, lists and objects."
            ) from None


def _encode(fields: Mapping[str, object]) -> bytes:
    try:
        return json.dumps(fields, allow_nan=False, separators=(",", ":")).encode("ascii")
    except (TypeError, ValueError, RecursionError):
        failure = RequestProviderError("provider_request_rejected", billed=False)
    raise failure
