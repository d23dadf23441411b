"""Reads the reply of an OpenAI-style chat completion: the wire format, pure.

The answer's text leaves exactly as the provider gave it. An envelope that cannot be used is
`provider_bad_reply`; an empty answer is an answer ("" for the boundary to judge).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Final

from assay.adapters.providers.answers import Answer, Said, Tokens, bad_reply, broken, refused
from assay.adapters.providers.envelope import count_field, detail, first, parse_json, text_field
from assay.adapters.providers.refusals import error_in_success, read_refusal
from assay.adapters.providers.transport import HttpReply

CUT_BY_LIMIT: Final = frozenset({"length", "max_tokens", "model_length"})
REFUSED: Final = frozenset({"content_filter", "sensitive"})
BROKEN_OFF: Final = frozenset({"error", "network_error", "insufficient_system_resource"})

# Parts of a message that are not the answer: what some vendors let a model think aloud.
_ASIDE: Final = frozenset({"thinking", "reasoning"})


def read_chat_reply(reply: HttpReply, *, settings: Collection[str], now: datetime) -> Answer:
    """The answer in a reply. Raises `ProviderError` subclasses: see `refusals` for those of error statuses.

    A refusal by the provider (`refusal`, finish reason `content_filter`) is `PolicyProviderError`.
    """
    if not 200 <= reply.status <= 299:
        raise read_refusal(reply, settings=settings, now=now)
    envelope = parse_json(reply.body)
    if not isinstance(envelope, Mapping):
        raise bad_reply(reply)
    choice = first(envelope.get("choices"))
    said = Said(
        tokens=read_tokens(envelope.get("usage")),
        model=text_field(envelope.get("model")),
        finish_reason=text_field(choice.get("finish_reason")) if isinstance(choice, Mapping) else None,
        reply_id=text_field(envelope.get("id")),
    )
    if not isinstance(choice, Mapping):
        raise error_in_success(envelope, reply, said, settings=settings, now=now)
    message = choice.get("message")
    if said.finish_reason in BROKEN_OFF:
        raise broken("provider_server_error", reply, said)
    if said.finish_reason in REFUSED or (isinstance(message, Mapping) and _refused(message)):
        raise refused(reply, said)
    content = _content(message)
    if content is None:
        raise bad_reply(reply, said)
    return said.answer(content, truncated=said.finish_reason in CUT_BY_LIMIT)


def read_tokens(usage: object) -> Tokens:
    """Token counts as the provider stated them; None for each that it did not."""
    if not isinstance(usage, Mapping):
        return Tokens()
    cached = detail(usage, "prompt_tokens_details", "cached_tokens")
    for gateway_name in ("prompt_cache_hit_tokens", "cached_tokens"):
        cached = count_field(usage.get(gateway_name)) if cached is None else cached
    return Tokens(
        input=count_field(usage.get("prompt_tokens")),
        output=count_field(usage.get("completion_tokens")),
        cached=cached,
        reasoning=detail(usage, "completion_tokens_details", "reasoning_tokens"),
        cache_write=detail(usage, "prompt_tokens_details", "cache_write_tokens"),
    )


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
        if isinstance(part, Mapping) and part.get("type") in _ASIDE:
            continue
        text = part.get("text") if isinstance(part, Mapping) and part.get("type") == "text" else None
        if not isinstance(text, str):
            return None
        texts.append(text)
    return "".join(texts)
