"""The Anthropic messages wire, not streamed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
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
    text_of,
    token_limit,
    without_tools,
)
from assay.vendor.wire_openai import bearer

_TEXT: Final = ("text",)
_STOPS: Final = {"stop": "end_turn", "length": "max_tokens", "refusal": "refusal"}
_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


class MessagesWire:
    """`POST /v1/messages`. Input tokens are counted apart from those read from the cache."""

    name = "messages"
    address = "/v1/messages"
    request_id_header = "request-id"

    def key(self, headers: Mapping[str, str]) -> str | None:
        return headers.get("x-api-key", bearer(headers))

    def read(self, body: bytes, headers: Mapping[str, str]) -> Asked:
        if not headers.get("anthropic-version"):
            raise WireError(400, "anthropic-version: header is required")
        request = object_of(body)
        without_tools(request)
        texts = message_texts(request.get("messages"), "messages", _TEXT)
        system = request.get("system")
        before = [] if system is None else [text_of(system, "system", _TEXT)]
        limit = token_limit(request, "max_tokens")
        if limit is None:
            raise WireError(400, "max_tokens: Field required", param="max_tokens")
        return Asked(model_of(request), texts[-1], prompt_tokens(before + texts), _schema(request), limit)

    def finish_reason(self, finish: str) -> str:
        return _STOPS[finish]

    def reply(self, reply: Reply) -> JsonObject:
        refused = reply.finish == "refusal"
        body: JsonObject = {
            "id": f"msg_{reply.request_id}",
            "type": "message",
            "role": "assistant",
            "model": reply.model,
            "content": [] if reply.empty or refused else [{"type": "text", "text": reply.content}],
            "stop_reason": _STOPS[reply.finish],
            "stop_sequence": None,
            "stop_details": None,
        }
        if refused:
            body["stop_details"] = {"type": "refusal", "category": None, "explanation": reply.content}
        if reply.with_usage:
            body["usage"] = {
                "input_tokens": reply.prompt_tokens - reply.cached_tokens,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": reply.cached_tokens,
                "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
                "output_tokens": reply.completion_tokens,
                "service_tier": "standard",
            }
        return body

    def error(self, error: WireError, request_id: str) -> tuple[int, JsonObject]:
        status = error.other_status
        fields: JsonObject = {"type": _TYPES.get(status, "api_error"), "message": error.message}
        return status, {"type": "error", "error": fields, "request_id": request_id}

    def limit_headers(
        self, requests: BucketState | None, tokens: BucketState | None, now: float
    ) -> dict[str, str]:
        headers = {}
        for name, state in (("requests", requests), ("tokens", tokens)):
            if state is not None:
                whole = datetime.fromtimestamp(now + state.reset, UTC).isoformat(timespec="milliseconds")
                headers[f"anthropic-ratelimit-{name}-limit"] = str(state.limit)
                headers[f"anthropic-ratelimit-{name}-remaining"] = str(state.remaining)
                headers[f"anthropic-ratelimit-{name}-reset"] = whole.replace("+00:00", "Z")
        return headers


def messages_model_list(names: tuple[str, ...]) -> JsonObject:
    """The body of `GET /v1/models` for a caller that sends `anthropic-version`."""
    listed: list[Json] = [
        {"type": "model", "id": name, "display_name": name, "created_at": "1970-01-01T00:00:00Z"}
        for name in names
    ]
    return {"data": listed, "has_more": False, "first_id": names[0], "last_id": names[-1]}


def _schema(request: JsonObject) -> JsonObject | None:
    """The schema of `output_config.format`, or of the older `output_format`."""
    config = request.get("output_config")
    place = "output_config.format" if isinstance(config, dict) and "format" in config else "output_format"
    asked = config.get("format") if isinstance(config, dict) and "format" in config else None
    asked = request.get("output_format") if asked is None else asked
    if asked is None:
        return None
    schema = asked.get("schema") if isinstance(asked, dict) and asked.get("type") == "json_schema" else None
    if not isinstance(schema, dict):
        raise WireError(400, f"{place}: a json_schema with a schema is expected", param=place)
    return schema
