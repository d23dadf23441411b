"""Reads the reply of Gemini's generateContent: the wire format, pure.

The answer is the text parts of the first candidate that are no thoughts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Final

from assay.adapters.providers.answers import Answer, Said, Tokens, bad_reply, refused
from assay.adapters.providers.envelope import count_field, first, parse_json, text_field
from assay.adapters.providers.refusals import error_in_success, read_refusal
from assay.adapters.providers.transport import HttpReply

CUT: Final = frozenset({"MAX_TOKENS"})
REFUSED: Final = frozenset(
    {"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR", "IMAGE_SAFETY"}
)


def read_gemini_reply(reply: HttpReply, *, settings: Collection[str], now: datetime) -> Answer:
    """The answer in a reply. Raises `ProviderError` subclasses; a blocked prompt or answer is a refusal."""
    if not 200 <= reply.status <= 299:
        raise read_refusal(reply, settings=settings, now=now)
    envelope = parse_json(reply.body)
    if not isinstance(envelope, Mapping):
        raise bad_reply(reply)
    candidate = first(envelope.get("candidates"))
    reason = candidate.get("finishReason") if isinstance(candidate, Mapping) else None
    said = Said(
        tokens=read_tokens(envelope.get("usageMetadata")),
        model=text_field(envelope.get("modelVersion")),
        finish_reason=text_field(reason),
        reply_id=text_field(envelope.get("responseId")),
    )
    if not isinstance(candidate, Mapping):
        if _prompt_blocked(envelope):
            raise refused(reply, said)
        raise error_in_success(envelope, reply, said, settings=settings, now=now)
    if said.finish_reason in REFUSED:
        raise refused(reply, said)
    content = candidate.get("content")
    parts = content.get("parts", []) if isinstance(content, Mapping) else []
    if not isinstance(parts, list):
        raise bad_reply(reply, said)
    texts = [part.get("text") for part in parts if isinstance(part, Mapping) and not part.get("thought")]
    return said.answer(
        "".join(text for text in texts if isinstance(text, str)), truncated=said.finish_reason in CUT
    )


def read_tokens(usage: object) -> Tokens:
    """Token counts: prompt and tool results are input, candidates and thoughts output."""
    if not isinstance(usage, Mapping):
        return Tokens()
    prompt = count_field(usage.get("promptTokenCount"))
    candidates = count_field(usage.get("candidatesTokenCount"))
    thoughts = count_field(usage.get("thoughtsTokenCount"))
    tools = count_field(usage.get("toolUsePromptTokenCount"))
    nothing_out = candidates is None and thoughts is None
    return Tokens(
        input=None if prompt is None else prompt + (tools or 0),
        output=None if nothing_out else (candidates or 0) + (thoughts or 0),
        cached=count_field(usage.get("cachedContentTokenCount")),
        reasoning=thoughts,
    )


def _prompt_blocked(envelope: Mapping[str, object]) -> bool:
    feedback = envelope.get("promptFeedback")
    return isinstance(feedback, Mapping) and bool(feedback.get("blockReason"))
