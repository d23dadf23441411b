"""The OpenAI chat-completions wire: OpenAI, Azure, vLLM, Ollama, and every gateway that speaks it."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Final

from pydantic import SecretStr
from yarl import URL

from assay.adapters.providers.addresses import header_safe_key, is_azure, openai_url
from assay.adapters.providers.answers import Answer
from assay.adapters.providers.http_model import HttpModel
from assay.adapters.providers.openai_chat_reading import read_chat_reply
from assay.adapters.providers.prices import Price
from assay.adapters.providers.transport import MAX_RESPONSE_BYTES, Deadlines, HttpReply
from assay.ports import ModelRequest

OPENAI_BASE_URL: Final = "https://api.openai.com/v1"

# What a pipeline's parameters may not set: the adapter does, or cannot read the outcome.
RESERVED_PARAMETERS: Final = frozenset({"model", "messages", "n", "stream", "stream_options"})


class ChatWire:
    """Requests and replies of chat completions for one model."""

    reserved = RESERVED_PARAMETERS

    def __init__(self, model: str, *, structured_output: bool) -> None:
        self._model = model
        self._structured_output = structured_output

    def fields(self, request: ModelRequest) -> dict[str, object]:
        fields: dict[str, object] = {
            name: value for name, value in request.parameters.items() if name not in self.reserved
        }
        fields["model"] = self._model
        fields["messages"] = [{"role": role, "content": content} for role, content in request.messages]
        if self._structured_output and request.json_schema is not None:
            fields["response_format"] = {
                "type": "json_schema",
                "json_schema": {
                    "name": request.schema_name,
                    "strict": True,
                    "schema": dict(request.json_schema),
                },
            }
        return fields

    def read(self, reply: HttpReply, *, settings: Collection[str], now: datetime) -> Answer:
        return read_chat_reply(reply, settings=settings, now=now)


class OpenAIChatModel(HttpModel):
    """A `ModelPort` for one model at one base URL (which may carry a query, kept in every call).

    Without `api_key` no key is sent. `structured_output` asks the vendor to constrain the answer to the
    contract's schema. `price` overrides the price list.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str = OPENAI_BASE_URL,
        api_key: SecretStr | None = None,
        deadlines: Deadlines | None = None,
        structured_output: bool = True,
        price: Price | None = None,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        connection_limit: int = 0,
        trust_env: bool = False,
    ) -> None:
        url = openai_url(base_url, "chat/completions", model)
        super().__init__(
            model,
            ChatWire(model, structured_output=structured_output),
            url,
            openai_key_headers(url, api_key),
            base_url=base_url,
            api_key=api_key,
            deadlines=deadlines,
            price=price,
            max_response_bytes=max_response_bytes,
            connection_limit=connection_limit,
            trust_env=trust_env,
        )


def openai_key_headers(url: URL, api_key: SecretStr | None) -> dict[str, str]:
    """The header that carries the key: `api-key` for Azure, `Authorization` for everybody else."""
    if api_key is None:
        return {}
    key = header_safe_key(api_key)
    return {"api-key": key} if is_azure(url) else {"Authorization": f"Bearer {key}"}
