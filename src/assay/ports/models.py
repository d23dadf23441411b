"""What the pipeline asks of a model: values and the port."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from decimal import Decimal
from typing import Any, Protocol

from assay.domain.rate_limits import RateLimits
from assay.domain.value import value


@value
class ModelRequest:
    """One call to a model: bytes in, bytes out.

    `messages` are role and content, the record's text alone in the last one. `json_schema` is the
    contract's schema for providers with structured output. `record_id` and `input_version` serve
    adapters that look answers up (`recorded:`); they are never sent to a vendor.
    `idempotency_key` = (attempt, annotation, pass), opaque.
    """

    record_id: str
    input_version: int
    messages: tuple[tuple[str, str], ...] = field(repr=False)
    json_schema: Mapping[str, Any] | None
    schema_name: str
    parameters: Mapping[str, Any]
    idempotency_key: str
    pass_number: int = 1


@value
class Usage:
    """Tokens as the provider counted them; None where it did not say."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


@value
class ModelResponse:
    """What came back: the answer's text exactly as the provider gave it, and what is known about the call.

    `content` is the raw answer (str as decoded from the provider's envelope; bytes where there is none).
    `truncated` is True when the finish reason says that the token limit cut the answer. `rate_limits` is what
    the reply's headers say about the account's limits, None where they say nothing.
    """

    content: str | bytes = field(repr=False)
    truncated: bool = False
    finish_reason: str | None = None
    usage: Usage = Usage()
    cost: Decimal | None = None
    request_id: str | None = None
    status: int | None = None
    model: str | None = None
    latency_ms: float = 0.0
    rate_limits: RateLimits | None = None


class ModelPort(Protocol):
    """A model. Raises `ProviderError` subclasses and nothing else; cancellation propagates.

    `account` names whose limits its calls count against: all workers that call with the same key at the same
    address share it. It tells neither key nor user name. None for a model without a vendor (`recorded:`).
    """

    @property
    def account(self) -> str | None: ...

    async def complete(self, request: ModelRequest) -> ModelResponse: ...

    async def aclose(self) -> None: ...
