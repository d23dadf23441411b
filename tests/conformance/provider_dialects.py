"""How each adapter is made, and how its vendor would say the same things on its wire."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import SecretStr

from assay.adapters.providers.anthropic_messages import AnthropicModel
from assay.adapters.providers.openai_chat import OpenAIChatModel
from assay.adapters.providers.openai_responses import OpenAIResponsesModel
from assay.adapters.providers.pydantic_ai_making import make_pydantic_ai_model
from assay.adapters.providers.transport import Deadlines
from assay.ports import ModelPort
from providers_fault_server import CONTENT, MEBIBYTE

Body = dict[str, Any]

MODEL = "small-model-2026-01-01"
KEY = SecretStr("sk-secret-key-of-the-test")
# Cells that wait for a deadline get a short one; the others must not fail on a busy machine.
SHORT = Deadlines(total=0.4, connect=0.3, read=0.2)
LONG = Deadlines(total=20.0, connect=10.0, read=20.0)
MOST_BYTES = MEBIBYTE


@dataclass(frozen=True)
class Dialect:
    """One wire: bodies that all mean the same. `error` takes a status, a code and a type."""

    ok: Callable[[], Body]
    empty: Body
    blank: Body
    refusal: Body
    truncated: Body
    usage_name: str
    model_name: str
    finish: str
    cut: str
    refused: str
    error: Callable[[str, str], Body]
    quota_type: str
    request_id_header: str = "X-Request-Id"
    limit_headers: Mapping[str, str] | None = None


def _chat(content: str | None = CONTENT, finish: str = "stop", **message: object) -> Body:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": MODEL,
        "choices": [
            {
                "index": 0,
                "finish_reason": finish,
                "message": {"role": "assistant", "content": content, **message},
            }
        ],
        "usage": {
            "prompt_tokens": 1000,
            "completion_tokens": 50,
            "total_tokens": 1050,
            "prompt_tokens_details": {"cached_tokens": 200},
            "completion_tokens_details": {"reasoning_tokens": 7},
        },
    }


def _responses(content: str = CONTENT, status: str = "completed", **more: object) -> Body:
    part = {"type": "output_text", "text": content, "annotations": []}
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": status,
        "model": MODEL,
        "output": [
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"type": "message", "id": "m", "role": "assistant", "status": status, "content": [part]},
        ],
        "usage": {
            "input_tokens": 1000,
            "output_tokens": 50,
            "total_tokens": 1050,
            "input_tokens_details": {"cached_tokens": 200},
            "output_tokens_details": {"reasoning_tokens": 7},
        },
        **more,
    }


def _messages(content: str = CONTENT, stop: str = "end_turn", **more: object) -> Body:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "x"},
            {"type": "text", "text": content},
        ],
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {
            "input_tokens": 700,
            "cache_creation_input_tokens": 100,
            "cache_read_input_tokens": 200,
            "output_tokens": 50,
            "output_tokens_details": {"thinking_tokens": 7},
        },
        **more,
    }


def _gemini(content: str = CONTENT, finish: str = "STOP", **more: object) -> Body:
    parts = [{"text": "hm", "thought": True}, {"text": content}]
    return {
        "responseId": "r-1",
        "modelVersion": MODEL,
        "candidates": [{"index": 0, "finishReason": finish, "content": {"role": "model", "parts": parts}}],
        "usageMetadata": {
            "promptTokenCount": 1000,
            "cachedContentTokenCount": 200,
            "candidatesTokenCount": 43,
            "thoughtsTokenCount": 7,
            "totalTokenCount": 1050,
        },
        **more,
    }


def _openai_error(code: str, kind: str) -> Body:
    return {"error": {"message": "the words of a person", "type": kind, "code": code, "param": None}}


def _anthropic_error(code: str, kind: str) -> Body:
    return {"type": "error", "error": {"type": kind, "message": "the words of a person"}}


def _google_error(code: str, kind: str) -> Body:
    return {"error": {"status": code.upper(), "message": "the words of a person"}}


_REFUSAL_PART = {"type": "message", "id": "m", "role": "assistant", "status": "completed",
                 "content": [{"type": "refusal", "refusal": "I cannot."}]}  # fmt: skip
_OPENAI_LIMITS = {
    "x-ratelimit-limit-requests": "500",
    "x-ratelimit-remaining-requests": "499",
    "x-ratelimit-reset-requests": "120ms",
    "x-ratelimit-limit-tokens": "30000",
    "x-ratelimit-remaining-tokens": "28976",
    "x-ratelimit-reset-tokens": "6m0s",
}
_ANTHROPIC_LIMITS = {
    "Date": "Mon, 30 Nov 2026 12:00:00 GMT",
    "anthropic-ratelimit-requests-limit": "50",
    "anthropic-ratelimit-requests-remaining": "49",
    "anthropic-ratelimit-requests-reset": "2026-11-30T12:00:01Z",
    "anthropic-ratelimit-tokens-limit": "30000",
    "anthropic-ratelimit-tokens-remaining": "28000",
    "anthropic-ratelimit-tokens-reset": "2026-11-30T12:06:00Z",
    "anthropic-ratelimit-input-tokens-remaining": "20000",
    "anthropic-ratelimit-output-tokens-limit": "8000",
}

CHAT = Dialect(
    ok=_chat, empty=_chat() | {"choices": []}, blank=_chat(None),
    refusal=_chat(None, refusal="I cannot."), truncated=_chat("{", "length"), usage_name="usage",
    model_name="model", finish="stop", cut="length", refused="stop", error=_openai_error,
    quota_type="insufficient_quota", limit_headers=_OPENAI_LIMITS,
)  # fmt: skip
RESPONSES = Dialect(
    ok=_responses, empty=_responses() | {"output": None}, blank=_responses() | {"output": []},
    refusal=_responses(output=[_REFUSAL_PART]),
    truncated=_responses("{", "incomplete", incomplete_details={"reason": "max_output_tokens"}),
    usage_name="usage", model_name="model", finish="completed", cut="max_output_tokens",
    refused="completed", error=_openai_error, quota_type="insufficient_quota",
    limit_headers=_OPENAI_LIMITS,
)  # fmt: skip
MESSAGES = Dialect(
    ok=_messages, empty=_messages() | {"content": None}, blank=_messages() | {"content": []},
    refusal=_messages("", "refusal"), truncated=_messages("{", "max_tokens"), usage_name="usage",
    model_name="model", finish="end_turn", cut="max_tokens", refused="refusal", error=_anthropic_error,
    quota_type="billing_error", request_id_header="Request-Id", limit_headers=_ANTHROPIC_LIMITS,
)  # fmt: skip
GEMINI = Dialect(
    ok=_gemini, empty=_gemini() | {"candidates": []},
    blank=_gemini() | {"candidates": [{"finishReason": "STOP", "content": {"role": "model", "parts": []}}]},
    refusal=_gemini("", "SAFETY"), truncated=_gemini("{", "MAX_TOKENS"), usage_name="usageMetadata",
    model_name="modelVersion", finish="STOP", cut="MAX_TOKENS", refused="SAFETY", error=_google_error,
    quota_type="",
)  # fmt: skip


@dataclass(frozen=True)
class Adapter:
    """One adapter under test. `path` ends the address that it must call; `constrains`: whether it asks the
    vendor for structured output with a model that nobody knows."""

    name: str
    dialect: Dialect
    make: Callable[[str, Deadlines], ModelPort]
    path: str
    constrains: bool = True


def _native(
    kind: type[OpenAIChatModel | OpenAIResponsesModel | AnthropicModel],
) -> Callable[[str, Deadlines], ModelPort]:
    def make(base_url: str, deadlines: Deadlines) -> ModelPort:
        return kind(
            "small-model",
            base_url=base_url,
            api_key=KEY,
            deadlines=deadlines,
            max_response_bytes=MOST_BYTES,
        )

    return make


def _through_pydantic_ai(provider: str) -> Callable[[str, Deadlines], ModelPort]:
    def make(base_url: str, deadlines: Deadlines) -> ModelPort:
        return make_pydantic_ai_model(
            f"{provider}:small-model",
            base_url=base_url,
            api_key=KEY,
            parameters={"temperature": 0},
            deadlines=deadlines,
            max_response_bytes=MOST_BYTES,
        )

    return make


ADAPTERS = [
    Adapter("openai-chat", CHAT, _native(OpenAIChatModel), "/chat/completions"),
    Adapter("openai-responses", RESPONSES, _native(OpenAIResponsesModel), "/responses"),
    Adapter("anthropic", MESSAGES, _native(AnthropicModel), "/messages"),
    Adapter("pydantic-ai-chat", CHAT, _through_pydantic_ai("openai-chat"), "/chat/completions"),
    Adapter("pydantic-ai-responses", RESPONSES, _through_pydantic_ai("openai-responses"), "/responses"),
    Adapter("pydantic-ai-anthropic", MESSAGES, _through_pydantic_ai("anthropic"), "/messages", False),
    Adapter("pydantic-ai-google", GEMINI, _through_pydantic_ai("google"), ":generateContent"),
    Adapter("pydantic-ai-mistral", CHAT, _through_pydantic_ai("mistral"), "/chat/completions", False),
]
