"""The OpenAI chat completions wire, not streamed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from assay.vendor.errors import WireError
from assay.vendor.gold import JsonObject
from assay.vendor.limits import BucketState
from assay.vendor.wire import Asked, Reply, message_texts, model_of, object_of, prompt_tokens, token_limit
from assay.vendor.wire_openai import REQUEST_ID_HEADER, bearer, openai_error, openai_limits

_FINISH: Final = {"refusal": "stop"}


class ChatWire:
    """`POST /v1/chat/completions`."""

    name = "chat"
    address = "/v1/chat/completions"
    request_id_header = REQUEST_ID_HEADER

    def key(self, headers: Mapping[str, str]) -> str | None:
        return bearer(headers)

    def read(self, body: bytes, headers: Mapping[str, str]) -> Asked:
        request = object_of(body)
        if request.get("n") not in (None, 1):
            raise WireError(400, "This vendor gives one answer; leave n out.", param="n")
        texts = message_texts(request.get("messages"), "messages", ("text",))
        limit = token_limit(request, "max_completion_tokens", "max_tokens")
        return Asked(model_of(request), texts[-1], prompt_tokens(texts), _schema(request), limit)

    def finish_reason(self, finish: str) -> str:
        return _FINISH.get(finish, finish)

    def reply(self, reply: Reply) -> JsonObject:
        refused = reply.finish == "refusal"
        message: JsonObject = {
            "role": "assistant",
            "content": None if refused else reply.content,
            "refusal": reply.content if refused else None,
        }
        choice: JsonObject = {
            "index": 0,
            "message": message,
            "logprobs": None,
            "finish_reason": self.finish_reason(reply.finish),
        }
        body: JsonObject = {
            "id": f"chatcmpl-{reply.request_id}",
            "object": "chat.completion",
            "created": reply.created,
            "model": reply.model,
            "choices": [] if reply.empty else [choice],
        }
        if reply.with_usage:
            body["usage"] = {
                "prompt_tokens": reply.prompt_tokens,
                "completion_tokens": reply.completion_tokens,
                "total_tokens": reply.prompt_tokens + reply.completion_tokens,
                "prompt_tokens_details": {"cached_tokens": reply.cached_tokens},
                "completion_tokens_details": {"reasoning_tokens": 0},
            }
        body["system_fingerprint"] = "fp_practice"
        return body

    def error(self, error: WireError, request_id: str) -> tuple[int, JsonObject]:
        return openai_error(error)

    def limit_headers(
        self, requests: BucketState | None, tokens: BucketState | None, now: float
    ) -> dict[str, str]:
        return openai_limits(requests, tokens)


def _schema(request: JsonObject) -> JsonObject | None:
    asked = request.get("response_format")
    if asked is None:
        return None
    kind = asked.get("type") if isinstance(asked, dict) else None
    if not isinstance(asked, dict) or kind not in ("text", "json_object", "json_schema"):
        raise WireError(400, "The response format is not one this vendor knows.", param="response_format")
    if kind != "json_schema":
        return None
    named = asked.get("json_schema")
    schema = named.get("schema") if isinstance(named, dict) else None
    if not isinstance(named, dict) or not isinstance(named.get("name"), str) or not isinstance(schema, dict):
        raise WireError(400, "A json_schema needs a name and a schema.", param="response_format.json_schema")
    return schema
