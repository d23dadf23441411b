"""Reads the reply of Anthropic's Messages API: the wire format, pure.

The answer is the text blocks; thinking, tool calls and tool results are not. The vendor counts input that
came from a cache, or went into one, apart from `input_tokens`: here they are one sum, with its parts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Final

from assay.adapters.providers.answers import Answer, Said, Tokens, bad_reply, refused
from assay.adapters.providers.envelope import count_field, detail, parse_json, text_field
from assay.adapters.providers.refusals import error_in_success, read_refusal
from assay.adapters.providers.transport import HttpReply

# `pause_turn` is no end either: the vendor's own tools ran too long.
CUT: Final = frozenset({"max_tokens", "model_context_window_exceeded", "pause_turn"})


def read_anthropic_reply(reply: HttpReply, *, settings: Collection[str], now: datetime) -> Answer:
    """The answer in a reply. Raises `ProviderError` subclasses; stop reason `refusal` is a policy failure."""
    if not 200 <= reply.status <= 299:
        raise read_refusal(reply, settings=settings, now=now)
    envelope = parse_json(reply.body)
    if not isinstance(envelope, Mapping):
        raise bad_reply(reply)
    said = Said(
        tokens=read_tokens(envelope.get("usage")),
        model=text_field(envelope.get("model")),
        finish_reason=text_field(envelope.get("stop_reason")),
        reply_id=text_field(envelope.get("id")),
    )
    blocks = envelope.get("content")
    if envelope.get("type", "message") != "message" or not isinstance(blocks, list | str):
        raise error_in_success(envelope, reply, said, settings=settings, now=now)
    if said.finish_reason == "refusal":
        raise refused(reply, said)
    content = blocks if isinstance(blocks, str) else _text(blocks)
    if content is None:
        raise bad_reply(reply, said)
    return said.answer(content, truncated=said.finish_reason in CUT)


def read_tokens(usage: object) -> Tokens:
    """Token counts as the provider stated them; None for each that it did not."""
    if not isinstance(usage, Mapping):
        return Tokens()
    fresh = count_field(usage.get("input_tokens"))
    read = count_field(usage.get("cache_read_input_tokens"))
    written = count_field(usage.get("cache_creation_input_tokens"))
    return Tokens(
        input=None if fresh is None else fresh + (read or 0) + (written or 0),
        output=count_field(usage.get("output_tokens")),
        cached=read,
        reasoning=detail(usage, "output_tokens_details", "thinking_tokens"),
        cache_write=written,
        long_cache_write=detail(usage, "cache_creation", "ephemeral_1h_input_tokens"),
    )


def _text(blocks: list[object]) -> str | None:
    texts: list[str] = []
    for block in blocks:
        if not isinstance(block, Mapping):
            return None
        if block.get("type") == "text":
            text = block.get("text")
            if not isinstance(text, str):
                return None
            texts.append(text)
    return "".join(texts)
