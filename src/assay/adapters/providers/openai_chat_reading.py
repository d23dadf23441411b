"""Reads the reply of an OpenAI-style chat completion: the wire format, pure.

The answer's text leaves exactly as the provider gave it. An envelope that cannot be used is
`provider_bad_reply`; an empty answer is an answer ("" for the boundary to judge).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from assay.adapters.providers.envelope import count_field, first, parse_json, text_field
from assay.adapters.providers.refusals import fields_of, read_refusal, refusal
from assay.adapters.providers.transport import MAX_PARTIAL_BYTES, HttpReply
from assay.domain.failures import PolicyProviderError, ProviderError, TransientProviderError
from assay.ports import Usage

CUT_BY_LIMIT: Final = frozenset({"length", "max_tokens", "model_length"})
REFUSED: Final = frozenset({"content_filter", "sensitive"})
BROKEN_OFF: Final = frozenset({"error", "network_error", "insufficient_system_resource"})


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """What a chat completion said. `content` is the answer; the rest may be missing (None)."""

    content: str = field(repr=False)
    finish_reason: str | None
    usage: Usage
    model: str | None
    completion_id: str | None

    @property
    def truncated(self) -> bool:
        return self.finish_reason in CUT_BY_LIMIT


def read_chat_reply(reply: HttpReply, *, settings: Collection[str], now: datetime) -> ChatAnswer:
    """The answer in a reply. Raises `ProviderError` subclasses: see `refusals` for those of error statuses.

    A refusal by the provider (`refusal`, finish reason `content_filter`) is `PolicyProviderError`.
    """
    if not 200 <= reply.status <= 299:
        raise read_refusal(reply, settings=settings, now=now)
    envelope = parse_json(reply.body)
    if not isinstance(envelope, Mapping):
        raise _bad_reply(reply)
    choice = first(envelope.get("choices"))
    if not isinstance(choice, Mapping):
        raise _error_in_success(envelope, reply, settings, now)
    finish_reason = text_field(choice.get("finish_reason"))
    message = choice.get("message")
    if finish_reason in BROKEN_OFF:
        raise _transient("provider_server_error", reply)
    if finish_reason in REFUSED or (isinstance(message, Mapping) and _refused(message)):
        raise PolicyProviderError("provider_refused", status=reply.status, request_id=reply.request_id)
    content = _content(message)
    if content is None:
        raise _bad_reply(reply)
    return ChatAnswer(
        content=content,
        finish_reason=finish_reason,
        usage=read_usage(envelope.get("usage")),
        model=text_field(envelope.get("model")),
        completion_id=text_field(envelope.get("id")),
    )


def read_usage(usage: object) -> Usage:
    """Token counts as the provider stated them; None for each that it did not."""
    if not isinstance(usage, Mapping):
        return Usage()
    cached = _detail(usage, "prompt_tokens_details", "cached_tokens")
    for gateway_name in ("prompt_cache_hit_tokens", "cached_tokens"):
        cached = count_field(usage.get(gateway_name)) if cached is None else cached
    return Usage(
        input_tokens=count_field(usage.get("prompt_tokens")),
        output_tokens=count_field(usage.get("completion_tokens")),
        cached_tokens=cached,
        reasoning_tokens=_detail(usage, "completion_tokens_details", "reasoning_tokens"),
    )


def _detail(usage: Mapping[str, object], group: str, name: str) -> int | None:
    details = usage.get(group)
    return count_field(details.get(name)) if isinstance(details, Mapping) else None


def _refused(message: Mapping[str, object]) -> bool:
    if message.get("refusal"):
        return True
    parts = message.get("content")
    return isinstance(parts, list) and any(
        isinstance(part, Mapping) and part.get("type") == "refusal" for part in parts
    )


def _content(message: object) -> str | None:
    """The answer's text, "" where the model gave none, None for a shape that is no answer."""
    if not isinstance(message, Mapping):
        return None
    content = message.get("content")
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    return _joined(content) if isinstance(content, list) else None


def _joined(parts: list[object]) -> str | None:
    texts: list[str] = []
    for part in parts:
        text = part.get("text") if isinstance(part, Mapping) and part.get("type") == "text" else None
        if not isinstance(text, str):
            return None
        texts.append(text)
    return "".join(texts)


def _error_in_success(
    envelope: Mapping[str, object], reply: HttpReply, settings: Collection[str], now: datetime
) -> ProviderError:
    """Gateways that have sent their headers already report the vendor's error inside a 200."""
    error = envelope.get("error")
    if isinstance(error, Mapping):
        fields = fields_of(error)
        if fields.status is not None:
            return refusal(fields.status, fields, reply, settings=settings, now=now)
    return _bad_reply(reply)


def _bad_reply(reply: HttpReply) -> TransientProviderError:
    return _transient("provider_bad_reply", reply)


def _transient(code: str, reply: HttpReply) -> TransientProviderError:
    return TransientProviderError(
        code, status=reply.status, request_id=reply.request_id, partial=reply.body[:MAX_PARTIAL_BYTES]
    )
