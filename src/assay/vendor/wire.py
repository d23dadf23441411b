"""The OpenAI chat completions wire, not streamed: requests read strictly, replies and errors in its shape."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from assay.vendor.gold import Json, JsonObject

TOKENS_PER_MESSAGE = 4
BYTES_PER_TOKEN = 4


class WireError(Exception):
    """A request that is refused, with its HTTP status and the fields of an OpenAI error."""

    def __init__(
        self,
        status: int,
        message: str,
        kind: str = "invalid_request_error",
        *,
        code: str | None = None,
        param: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body: JsonObject = {"error": {"message": message, "type": kind, "param": param, "code": code}}


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What the vendor reads of a request. `message` is the text of the last message."""

    model: str
    message: str = field(repr=False)
    prompt_tokens: int
    schema: JsonObject | None
    max_tokens: int | None


def read_request(body: bytes) -> ChatRequest:
    """Read a request body; raises WireError (400) saying which field does not fit."""
    try:
        request: Json = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise WireError(400, "The body of the request is not JSON.") from error
    if not isinstance(request, dict):
        raise WireError(400, "The body of the request is not a JSON object.")
    model = request.get("model")
    if not isinstance(model, str) or not model:
        raise WireError(400, "The request names no model.", param="model")
    if request.get("stream"):
        raise WireError(400, "This vendor does not stream; leave stream out.", param="stream")
    if request.get("n") not in (None, 1):
        raise WireError(400, "This vendor gives one answer; leave n out.", param="n")
    messages = request.get("messages")
    if not isinstance(messages, list) or not messages:
        raise WireError(400, "The request holds no messages.", param="messages")
    texts = [_message_text(message, number) for number, message in enumerate(messages)]
    prompt_tokens = 3 + sum(tokens_of(text) + TOKENS_PER_MESSAGE for text in texts)
    return ChatRequest(model, texts[-1], prompt_tokens, _schema(request), _max_tokens(request))


def tokens_of(text: str) -> int:
    """A plausible number of tokens: a quarter of the UTF-8 bytes, rounded up."""
    return (len(text.encode("utf-8", "surrogatepass")) + BYTES_PER_TOKEN - 1) // BYTES_PER_TOKEN


def cut_to_tokens(text: str, tokens: int) -> str:
    """The longest beginning of the text that is at most `tokens` tokens."""
    kept = text.encode("utf-8", "surrogatepass")[: tokens * BYTES_PER_TOKEN]
    return kept.decode("utf-8", "ignore")


def reply(
    *, request_id: str, created: int, model: str, content: str, finish_reason: str, usage: tuple[int, int]
) -> JsonObject:
    """A chat completion with one choice; `usage` is prompt and completion tokens."""
    prompt, completion = usage
    return {
        "id": f"chatcmpl-{request_id}",
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": content, "refusal": None},
                "logprobs": None,
                "finish_reason": finish_reason,
            }
        ],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0},
        },
        "system_fingerprint": "fp_practice",
    }


def model_list(names: tuple[str, ...]) -> JsonObject:
    """The body of `GET /v1/models`."""
    return {
        "object": "list",
        "data": [{"id": name, "object": "model", "created": 0, "owned_by": "practice"} for name in names],
    }


def _message_text(message: Json, number: int) -> str:
    """Text of one message: a string, or the text parts of a list joined."""
    place = f"messages[{number}].content"
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise WireError(400, "A message needs a role and a content.", param=f"messages[{number}]")
    content = message.get("content")
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise WireError(400, "The content of a message is a text or a list of parts.", param=place)
    texts = []
    for part in content:
        text = part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None
        if not isinstance(text, str):
            raise WireError(400, "This vendor reads text parts only.", param=place)
        texts.append(text)
    return "".join(texts)


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


def _max_tokens(request: JsonObject) -> int | None:
    for name in ("max_completion_tokens", "max_tokens"):
        limit = request.get(name)
        if limit is None:
            continue
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise WireError(400, "The limit of tokens is a whole number from 1.", param=name)
        return limit
    return None
