"""What the wires have in common: what is read of a request, what is said in a reply, tokens, errors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, TypeAlias

from assay.vendor.errors import WireError
from assay.vendor.gold import Json, JsonObject
from assay.vendor.limits import BucketState, TooMuch

Finish: TypeAlias = Literal["stop", "length", "refusal"]

TOKENS_PER_MESSAGE: Final = 4
BYTES_PER_TOKEN: Final = 4


@dataclass(frozen=True, slots=True)
class Asked:
    """What the vendor reads of a request. `message` is the text of the last message."""

    model: str
    message: str = field(repr=False)
    prompt_tokens: int
    schema: JsonObject | None
    max_tokens: int | None


@dataclass(slots=True)
class Reply:
    """What a reply says, before a wire puts it into its words. `prompt_tokens` include the cached ones.

    `empty` leaves out the answer (no choice, no output, no content), `with_usage` False the usage.
    """

    request_id: str
    created: int
    model: str
    content: str = field(repr=False)
    finish: str
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    empty: bool = False
    with_usage: bool = True


class Wire(Protocol):
    """The words of one API."""

    @property
    def name(self) -> str:
        """`chat`, `responses` or `messages`."""
        ...

    @property
    def address(self) -> str:
        """Its path."""
        ...

    @property
    def request_id_header(self) -> str:
        """The name of the header that holds the request's id."""
        ...

    def key(self, headers: Mapping[str, str]) -> str | None:
        """The API key, None where there is none."""
        ...

    def read(self, body: bytes, headers: Mapping[str, str]) -> Asked:
        """Read a request; raises WireError (400) saying which field does not fit."""
        ...

    def finish_reason(self, finish: str) -> str:
        """Why an answer ended, in the wire's words."""
        ...

    def reply(self, reply: Reply) -> JsonObject:
        """The body of a reply."""
        ...

    def error(self, error: WireError, request_id: str) -> tuple[int, JsonObject]:
        """Status and body of an error."""
        ...

    def limit_headers(
        self, requests: BucketState | None, tokens: BucketState | None, now: float
    ) -> dict[str, str]:
        """The state of the account's limits; `now` is Unix time."""
        ...


def object_of(body: bytes) -> JsonObject:
    """The request as a JSON object, with its model checked."""
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
    return request


def model_of(request: JsonObject) -> str:
    """The model that `object_of` has checked."""
    return str(request["model"])


def without_tools(request: JsonObject) -> None:
    """Refuse tools: answers come as text."""
    if request.get("tools"):
        raise WireError(400, "This vendor calls no tools; leave tools out.", param="tools")


def text_of(content: Json, place: str, kinds: tuple[str, ...]) -> str:
    """A text, or the text parts of a list joined."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise WireError(400, "The content of a message is a text or a list of parts.", param=place)
    texts = []
    for part in content:
        text = part.get("text") if isinstance(part, dict) and part.get("type") in kinds else None
        if not isinstance(text, str):
            raise WireError(400, "This vendor reads text parts only.", param=place)
        texts.append(text)
    return "".join(texts)


def message_texts(messages: Json, name: str, kinds: tuple[str, ...]) -> list[str]:
    """The texts of a list of messages, at least one."""
    if not isinstance(messages, list) or not messages:
        raise WireError(400, f"The request holds no {name}.", param=name)
    texts = []
    for number, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise WireError(400, "A message needs a role and a content.", param=f"{name}[{number}]")
        texts.append(text_of(message.get("content"), f"{name}[{number}].content", kinds))
    return texts


def prompt_tokens(texts: list[str]) -> int:
    """Tokens of a prompt of these messages."""
    return 3 + sum(tokens_of(text) + TOKENS_PER_MESSAGE for text in texts)


def token_limit(request: JsonObject, *names: str) -> int | None:
    """The first of the named limits that the request gives."""
    for name in names:
        limit = request.get(name)
        if limit is None:
            continue
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise WireError(400, "The limit of tokens is a whole number from 1.", param=name)
        return limit
    return None


def tokens_of(text: str) -> int:
    """A plausible number of tokens: a quarter of the UTF-8 bytes, rounded up."""
    return (len(text.encode("utf-8", "surrogatepass")) + BYTES_PER_TOKEN - 1) // BYTES_PER_TOKEN


def cut_to_tokens(text: str, tokens: int) -> str:
    """The longest beginning of the text that is at most `tokens` tokens."""
    kept = text.encode("utf-8", "surrogatepass")[: tokens * BYTES_PER_TOKEN]
    return kept.decode("utf-8", "ignore")


def limited(refused: TooMuch) -> WireError:
    """The error of a call beyond a limit; its type names the limit."""
    return WireError(
        429,
        f"The account's limit of {refused.limit} is used up.",
        refused.limit,
        code="rate_limit_exceeded",
        retry=max(refused.wait, 1e-3),
    )
