"""The OpenAI Responses wire, neither streamed nor in the background."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from assay.vendor.errors import WireError
from assay.vendor.gold import Json, JsonObject
from assay.vendor.limits import BucketState
from assay.vendor.wire import (
    Asked,
    Reply,
    message_texts,
    model_of,
    object_of,
    prompt_tokens,
    token_limit,
    without_tools,
)
from assay.vendor.wire_openai import REQUEST_ID_HEADER, bearer, openai_error, openai_limits

_TEXT_KINDS: Final = ("input_text", "output_text", "text")


class ResponsesWire:
    """`POST /v1/responses`. A cut answer has the status `incomplete`, a refusal is a part of its own kind."""

    name = "responses"
    address = "/v1/responses"
    request_id_header = REQUEST_ID_HEADER

    def key(self, headers: Mapping[str, str]) -> str | None:
        return bearer(headers)

    def read(self, body: bytes, headers: Mapping[str, str]) -> Asked:
        request = object_of(body)
        without_tools(request)
        if request.get("background"):
            raise WireError(400, "This vendor answers at once; leave background out.", param="background")
        texts = _texts(request)
        limit = token_limit(request, "max_output_tokens")
        return Asked(model_of(request), texts[-1], prompt_tokens(texts), _schema(request), limit)

    def finish_reason(self, finish: str) -> str:
        return "max_output_tokens" if finish == "length" else "completed"

    def reply(self, reply: Reply) -> JsonObject:
        cut = reply.finish == "length"
        part: JsonObject = {"type": "output_text", "text": reply.content, "annotations": [], "logprobs": []}
        if reply.finish == "refusal":
            part = {"type": "refusal", "refusal": reply.content}
        message: JsonObject = {
            "type": "message",
            "id": f"msg_{reply.request_id}",
            "status": "incomplete" if cut else "completed",
            "role": "assistant",
            "content": [part],
        }
        return {
            "id": f"resp_{reply.request_id}",
            "object": "response",
            "created_at": reply.created,
            "status": "incomplete" if cut else "completed",
            "background": False,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "instructions": None,
            "metadata": {},
            "model": reply.model,
            "output": [] if reply.empty else [message],
            "parallel_tool_calls": True,
            "previous_response_id": None,
            "service_tier": "default",
            "store": False,
            "temperature": 1.0,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1.0,
            "truncation": "disabled",
            "usage": _usage(reply) if reply.with_usage else None,
        }

    def error(self, error: WireError, request_id: str) -> tuple[int, JsonObject]:
        return openai_error(error)

    def limit_headers(
        self, requests: BucketState | None, tokens: BucketState | None, now: float
    ) -> dict[str, str]:
        return openai_limits(requests, tokens)


def _usage(reply: Reply) -> JsonObject:
    return {
        "input_tokens": reply.prompt_tokens,
        "input_tokens_details": {"cached_tokens": reply.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": reply.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": reply.prompt_tokens + reply.completion_tokens,
    }


def _texts(request: JsonObject) -> list[str]:
    """Instructions, then the input: a text, or messages (items of another type are refused)."""
    instructions = request.get("instructions")
    if instructions is not None and not isinstance(instructions, str):
        raise WireError(400, "The instructions are a text.", param="instructions")
    before = [] if instructions is None else [instructions]
    given = request.get("input")
    if isinstance(given, str):
        return [*before, given]
    items = given if isinstance(given, list) else []
    for number, item in enumerate(items):
        if isinstance(item, dict) and item.get("type", "message") != "message":
            raise WireError(400, "This vendor reads messages only.", param=f"input[{number}]")
    return before + message_texts(given, "input", _TEXT_KINDS)


def _schema(request: JsonObject) -> JsonObject | None:
    text = request.get("text")
    asked: Json = text.get("format") if isinstance(text, dict) else text
    if asked is None:
        return None
    kind = asked.get("type") if isinstance(asked, dict) else None
    if not isinstance(asked, dict) or kind not in ("text", "json_object", "json_schema"):
        raise WireError(400, "The text format is not one this vendor knows.", param="text.format")
    if kind != "json_schema":
        return None
    schema = asked.get("schema")
    if not isinstance(asked.get("name"), str) or not isinstance(schema, dict):
        raise WireError(400, "A json_schema needs a name and a schema.", param="text.format")
    return schema
