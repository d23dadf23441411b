"""Anthropic's Messages wire: Anthropic, its models on Azure, and gateways that speak it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Final

from pydantic import SecretStr

from assay.adapters.providers.addresses import anthropic_url, header_safe_key
from assay.adapters.providers.answers import Answer
from assay.adapters.providers.anthropic_reading import read_anthropic_reply
from assay.adapters.providers.anthropic_schema import output_schema
from assay.adapters.providers.http_model import HttpModel
from assay.adapters.providers.prices import Price
from assay.adapters.providers.transport import MAX_RESPONSE_BYTES, Deadlines, HttpReply
from assay.ports import ModelRequest

ANTHROPIC_BASE_URL: Final = "https://api.anthropic.com/v1"
ANTHROPIC_VERSION: Final = "2023-06-01"
DEFAULT_ANSWER_BYTES: Final = 8192

RESERVED_PARAMETERS: Final = frozenset({"model", "messages", "system", "stream"})


class MessagesWire:
    """Requests and replies of the Messages API for one model.

    The vendor demands `max_tokens`. Where the parameters do not set it, it is the contract's byte limit: a
    token is a byte or more, so no answer is cut that the boundary would take. A stated thinking budget comes
    on top.
    """

    reserved = RESERVED_PARAMETERS

    def __init__(self, model: str, *, structured_output: bool, answer_bytes: int) -> None:
        self._model = model
        self._structured_output = structured_output
        self._answer_bytes = answer_bytes

    def fields(self, request: ModelRequest) -> dict[str, object]:
        fields: dict[str, object] = {
            name: value for name, value in request.parameters.items() if name not in self.reserved
        }
        fields["model"] = self._model
        fields.setdefault("max_tokens", self._answer_bytes + _thinking_budget(fields.get("thinking")))
        system = [content for role, content in request.messages if role == "system"]
        if system:
            fields["system"] = "\n\n".join(system)
        fields["messages"] = [
            {"role": role, "content": content} for role, content in request.messages if role != "system"
        ]
        if self._structured_output and request.json_schema is not None:
            schema = output_schema(request.json_schema)
            if schema is not None:
                asked = fields.get("output_config")
                fields["output_config"] = {
                    **(asked if isinstance(asked, Mapping) else {}),
                    "format": {"type": "json_schema", "schema": schema},
                }
        return fields

    def read(self, reply: HttpReply, *, settings: Collection[str], now: datetime) -> Answer:
        return read_anthropic_reply(reply, settings=settings, now=now)


class AnthropicModel(HttpModel):
    """A `ModelPort` for one model at one base URL.

    `answer_bytes` is the contract's limit for an answer in bytes. Other arguments as for `OpenAIChatModel`.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str = ANTHROPIC_BASE_URL,
        api_key: SecretStr | None = None,
        deadlines: Deadlines | None = None,
        structured_output: bool = True,
        price: Price | None = None,
        answer_bytes: int = DEFAULT_ANSWER_BYTES,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        connection_limit: int = 0,
        trust_env: bool = False,
    ) -> None:
        headers = {"anthropic-version": ANTHROPIC_VERSION}
        if api_key is not None:
            headers["x-api-key"] = header_safe_key(api_key)
        super().__init__(
            model,
            MessagesWire(model, structured_output=structured_output, answer_bytes=answer_bytes),
            anthropic_url(base_url),
            headers,
            base_url=base_url,
            api_key=api_key,
            deadlines=deadlines,
            price=price,
            max_response_bytes=max_response_bytes,
            connection_limit=connection_limit,
            trust_env=trust_env,
        )


def _thinking_budget(thinking: object) -> int:
    budget = thinking.get("budget_tokens") if isinstance(thinking, Mapping) else None
    return budget if type(budget) is int and budget > 0 else 0
