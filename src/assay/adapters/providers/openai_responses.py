"""The OpenAI Responses wire: OpenAI, Azure, and gateways that speak it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Final

from pydantic import SecretStr

from assay.adapters.providers.addresses import openai_url
from assay.adapters.providers.answers import Answer
from assay.adapters.providers.http_model import HttpModel
from assay.adapters.providers.openai_chat import OPENAI_BASE_URL, openai_key_headers
from assay.adapters.providers.openai_responses_reading import read_responses_reply
from assay.adapters.providers.prices import Price
from assay.adapters.providers.transport import MAX_RESPONSE_BYTES, Deadlines, HttpReply
from assay.ports import ModelRequest

RESERVED_PARAMETERS: Final = frozenset({"model", "input", "stream", "stream_options", "background"})


class ResponsesWire:
    """Requests and replies of the Responses API for one model.

    The vendor is told not to keep the exchange (`store` false) unless the pipeline's parameters say so.
    """

    reserved = RESERVED_PARAMETERS

    def __init__(self, model: str, *, structured_output: bool) -> None:
        self._model = model
        self._structured_output = structured_output

    def fields(self, request: ModelRequest) -> dict[str, object]:
        fields: dict[str, object] = {"store": False}
        fields |= {name: value for name, value in request.parameters.items() if name not in self.reserved}
        fields["model"] = self._model
        fields["input"] = [{"role": role, "content": content} for role, content in request.messages]
        if self._structured_output and request.json_schema is not None:
            asked = fields.get("text")
            fields["text"] = {
                **(asked if isinstance(asked, Mapping) else {}),
                "format": {
                    "type": "json_schema",
                    "name": request.schema_name,
                    "strict": True,
                    "schema": dict(request.json_schema),
                },
            }
        return fields

    def read(self, reply: HttpReply, *, settings: Collection[str], now: datetime) -> Answer:
        return read_responses_reply(reply, settings=settings, now=now)


class OpenAIResponsesModel(HttpModel):
    """A `ModelPort` for one model at one base URL; arguments as for `OpenAIChatModel`."""

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
        url = openai_url(base_url, "responses", model)
        super().__init__(
            model,
            ResponsesWire(model, structured_output=structured_output),
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
