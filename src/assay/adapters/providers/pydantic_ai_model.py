"""A model that pydantic-ai calls, for vendors whose wire assay does not write itself.

pydantic-ai makes the request; the reply is read from the captured bytes by assay's own readers where the wire
is known, so that the boundary judges what the vendor sent. For another wire, and for a vendor that is not
called over the client we hand in, the text is pydantic-ai's, cleaned by it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final, Protocol, cast

from pydantic_ai import messages
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings

from assay.adapters.providers.answers import Answer, Tokens, bad_reply
from assay.adapters.providers.anthropic_reading import read_anthropic_reply
from assay.adapters.providers.gemini_reading import read_gemini_reply
from assay.adapters.providers.http_model import complete_failure, header_safe_idempotency_key, respond
from assay.adapters.providers.loopback import only_loopback
from assay.adapters.providers.openai_chat_reading import read_chat_reply
from assay.adapters.providers.openai_responses_reading import read_responses_reply
from assay.adapters.providers.prices import CostOf
from assay.adapters.providers.pydantic_ai_capture import CURRENT, Capture
from assay.adapters.providers.pydantic_ai_failures import cut_short
from assay.adapters.providers.refusals import read_refusal
from assay.adapters.providers.transport import MAX_RESPONSE_BYTES, Deadlines, HttpReply
from assay.domain.failures import ConfigurationProviderError, ProviderError
from assay.ports import ModelRequest, ModelResponse

# Any failure of a vendor's SDK becomes a typed error. Control flow (cancellation and its like) passes.
_DEFECTS: Final = (Exception,)


class _Read(Protocol):
    def __call__(self, reply: HttpReply, *, settings: frozenset[str], now: datetime) -> Answer: ...


_READERS: Final[tuple[tuple[str, _Read], ...]] = (
    ("/chat/completions", read_chat_reply),
    ("/responses", read_responses_reply),
    ("/messages", read_anthropic_reply),
    (":generateContent", read_gemini_reply),
)


class PydanticAIModel:
    """A `ModelPort` over a model of pydantic-ai. `captured`: its calls go through our HTTP client."""

    def __init__(
        self,
        model: Model,
        *,
        account: str,
        cost: CostOf,
        settings: Mapping[str, object],
        deadlines: Deadlines,
        structured_output: bool,
        captured: bool,
        close: Callable[[], object],
        max_response_bytes: int = MAX_RESPONSE_BYTES,
    ) -> None:
        self._model = model
        self._account = account
        self._cost = cost
        self._settings = dict(settings)
        self._deadlines = deadlines
        self._captured = captured
        self._close = close
        self._max_response_bytes = max_response_bytes
        self._constrains = structured_output and bool(model.profile.get("supports_json_schema_output"))

    @property
    def account(self) -> str:
        """Address and a digest of the key: all who call with this key share the vendor's limits."""
        return self._account

    def __repr__(self) -> str:
        return f"PydanticAIModel({self._model.system}:{self._model.model_name})"

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """One call, no retries. Raises `ProviderError` subclasses; cancellation propagates."""
        capture = Capture(header_safe_idempotency_key(request.idempotency_key), self._max_response_bytes)
        try:
            if only_loopback() and not self._captured:
                raise ConfigurationProviderError("provider_settings_rejected", billed=False)
            return await self._call(request, capture)
        except ProviderError as failure:
            complete_failure(failure, self._cost, capture.latency_ms)
            raise

    async def aclose(self) -> None:
        """Close the connections. May be called twice."""
        closing = self._close()
        if asyncio.iscoroutine(closing):
            await closing

    async def _call(self, request: ModelRequest, capture: Capture) -> ModelResponse:
        heard: messages.ModelResponse | None = None
        error: Exception | None = None
        token = CURRENT.set(capture)
        try:
            async with asyncio.timeout(self._deadlines.total):
                heard = await self._model.request(
                    _messages(request), cast(ModelSettings, dict(self._settings)), self._parameters(request)
                )
        except _DEFECTS as defect:
            error = defect
        finally:
            CURRENT.reset(token)
        # Judged outside the handler: SDK errors hold the request's headers, key included, and must not
        # travel along as `__context__`.
        return self._judged(heard, error, capture)

    def _judged(
        self, heard: messages.ModelResponse | None, error: Exception | None, capture: Capture
    ) -> ModelResponse:
        now = datetime.now(UTC)
        names = frozenset(self._settings) | {"model", "response_format"}
        status = capture.status
        if status is not None and (capture.whole or status >= 300):
            reply = capture.reply(status)
            read = next((read for end, read in _READERS if capture.path.endswith(end)), None)
            if read is not None:
                return respond(read(reply, settings=names, now=now), reply, self._cost, now)
            if status >= 300:
                raise read_refusal(reply, settings=names, now=now)
            if heard is None:
                raise bad_reply(reply)
            return respond(_cleaned(heard), reply, self._cost, now)
        if heard is None:
            raise cut_short(capture, error or TimeoutError(), settings=names, now=now)
        reply = HttpReply(200, {}, b"", capture.latency_ms, None)
        return respond(_cleaned(heard), reply, self._cost, now)

    def _parameters(self, request: ModelRequest) -> ModelRequestParameters:
        if not self._constrains or request.json_schema is None:
            return ModelRequestParameters(output_mode="text", allow_text_output=True)
        return ModelRequestParameters(
            output_mode="native",
            output_object=OutputObjectDefinition(
                json_schema=dict(request.json_schema), name=request.schema_name, strict=True
            ),
            allow_text_output=True,
        )


def _messages(request: ModelRequest) -> list[messages.ModelMessage]:
    """The request's messages in order, each in its own role."""
    made: list[messages.ModelMessage] = []
    for role, content in request.messages:
        if role == "assistant":
            made.append(messages.ModelResponse(parts=[messages.TextPart(content)]))
        elif role == "system":
            made.append(messages.ModelRequest(parts=[messages.SystemPromptPart(content)]))
        else:
            made.append(messages.ModelRequest(parts=[messages.UserPromptPart(content)]))
    return made


def _cleaned(heard: messages.ModelResponse) -> Answer:
    """An answer as pydantic-ai tells it, where the wire is not known."""
    usage = heard.usage
    texts = [part.content for part in heard.parts if isinstance(part, messages.TextPart)]
    reasoning = usage.details.get("reasoning_tokens")
    known = bool(usage.input_tokens or usage.output_tokens)
    return Answer(
        content="".join(texts),
        finish_reason=heard.finish_reason,
        tokens=Tokens(
            input=usage.input_tokens,
            output=usage.output_tokens,
            cached=usage.cache_read_tokens,
            reasoning=reasoning,
            cache_write=usage.cache_write_tokens,
        )
        if known
        else Tokens(),
        model=heard.model_name,
        reply_id=heard.provider_response_id,
        truncated=heard.finish_reason == "length",
    )
