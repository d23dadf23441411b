"""Reads the reply of OpenAI's Responses API: the wire format, pure.

The answer is the text of the message items; reasoning, tool calls and their results are not. Where a model
marks its messages with a phase, the final answer alone counts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final

from assay.adapters.providers.answers import Answer, Said, Tokens, bad_reply, broken, refused
from assay.adapters.providers.envelope import count_field, detail, parse_json, text_field
from assay.adapters.providers.refusals import error_in_success, fields_of, read_refusal, refusal
from assay.adapters.providers.transport import HttpReply
from assay.domain.failures import ProviderError

# Status codes that stand for the codes of a response that failed after it was accepted.
_FAILED: Final = {
    "rate_limit_exceeded": 429,
    "server_error": 500,
    "vector_store_timeout": 504,
    "invalid_prompt": 400,
}


def read_responses_reply(reply: HttpReply, *, settings: Collection[str], now: datetime) -> Answer:
    """The answer in a reply. Raises `ProviderError` subclasses.

    `incomplete` is an answer that was cut (`content_filter`: a refusal); `failed` is the vendor's failure.
    """
    if not 200 <= reply.status <= 299:
        raise read_refusal(reply, settings=settings, now=now)
    envelope = parse_json(reply.body)
    if not isinstance(envelope, Mapping):
        raise bad_reply(reply)
    status = text_field(envelope.get("status"))
    reason = _incomplete_reason(envelope)
    said = Said(
        tokens=read_tokens(envelope.get("usage")),
        model=text_field(envelope.get("model")),
        finish_reason=reason or status,
        reply_id=text_field(envelope.get("id")),
    )
    if status == "failed":
        raise _failed(envelope, reply, said, settings, now)
    items = envelope.get("output")
    if not isinstance(items, list):
        raise error_in_success(envelope, reply, said, settings=settings, now=now)
    # The compaction endpoint and whatever else has an output has no status of a response.
    if status not in ("completed", "incomplete"):
        raise bad_reply(reply, said)
    parts = _parts(items)
    if reason == "content_filter" or any(part.get("type") == "refusal" for part in parts):
        raise refused(reply, said)
    texts = [part.get("text") for part in parts if part.get("type") in ("output_text", "text")]
    content = "".join(text for text in texts if isinstance(text, str))
    return said.answer(content, truncated=status == "incomplete")


def read_tokens(usage: object) -> Tokens:
    """Token counts as the provider stated them; None for each that it did not."""
    if not isinstance(usage, Mapping):
        return Tokens()
    return Tokens(
        input=count_field(usage.get("input_tokens")),
        output=count_field(usage.get("output_tokens")),
        cached=detail(usage, "input_tokens_details", "cached_tokens"),
        reasoning=detail(usage, "output_tokens_details", "reasoning_tokens"),
        cache_write=detail(usage, "input_tokens_details", "cache_write_tokens"),
    )


def _incomplete_reason(envelope: Mapping[str, object]) -> str | None:
    details = envelope.get("incomplete_details")
    return text_field(details.get("reason")) if isinstance(details, Mapping) else None


def _parts(items: Sequence[object]) -> list[Mapping[str, object]]:
    """The content parts of the messages that are the answer."""
    messages = [item for item in items if isinstance(item, Mapping) and item.get("type") == "message"]
    final = [message for message in messages if message.get("phase") == "final_answer"]
    found: list[Mapping[str, object]] = []
    for message in final or messages:
        content = message.get("content")
        if isinstance(content, str):
            found.append({"type": "output_text", "text": content})
        elif isinstance(content, list):
            found += [part for part in content if isinstance(part, Mapping)]
    return found


def _failed(
    envelope: Mapping[str, object], reply: HttpReply, said: Said, settings: Collection[str], now: datetime
) -> ProviderError:
    error = envelope.get("error")
    fields = fields_of(error) if isinstance(error, Mapping) else None
    if fields is None or fields.code is None:
        return broken("provider_server_error", reply, said)
    status = _FAILED.get(fields.code, 400 if fields.stops_version else 500)
    return refusal(status, fields, reply, said, settings=settings, now=now)
