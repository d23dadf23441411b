"""A client for the tests of the practice vendor that speaks the wire with nothing but aiohttp."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import aiohttp

from assay.vendor.settings import FaultShares

FAULTS = FaultShares(
    rate_limited=0.04,
    server_error=0.03,
    prose_prefix=0.05,
    string_confidence=0.04,
    extra_field=0.03,
    truncation=0.06,
)


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: dict[str, object]

    @property
    def choice(self) -> tuple[str, str]:
        """Content and finish reason of a chat completion."""
        choices = self.body["choices"]
        assert isinstance(choices, list)
        return choices[0]["message"]["content"], choices[0]["finish_reason"]

    @property
    def error(self) -> dict[str, object]:
        error = self.body["error"]
        assert isinstance(error, dict)
        assert set(error) == {"message", "type", "param", "code"}
        return error


class Client:
    """Speaks the wire with nothing but aiohttp."""

    def __init__(self, base_url: str, session: aiohttp.ClientSession) -> None:
        self._url = f"{base_url}/chat/completions"
        self._session = session

    async def post(self, body: bytes, headers: Mapping[str, str] | None = None) -> Reply:
        async with self._session.post(self._url, data=BytesIO(body), headers=headers) as response:
            return Reply(response.status, response.headers.copy(), json.loads(await response.read()))

    async def ask(self, text: str, headers: Mapping[str, str] | None = None, **more: object) -> Reply:
        messages = [{"role": "system", "content": "Classify."}, {"role": "user", "content": text}]
        return await self.post(json.dumps({"model": "m", "messages": messages, **more}).encode(), headers)

    async def ask_all(self, texts: list[str], at_once: int) -> dict[str, Reply]:
        replies: dict[str, Reply] = {}
        waiting = iter(texts)

        async def work() -> None:
            for text in waiting:
                replies[text] = await self.ask(text)

        await asyncio.gather(*(work() for _ in range(at_once)))
        return replies


ADDRESSES = {"chat": "/chat/completions", "responses": "/responses", "messages": "/messages"}


@dataclass(frozen=True, slots=True)
class Raw:
    """A reply on any wire, as it came."""

    wire: str
    status: int
    headers: Mapping[str, str]
    raw: bytes

    @property
    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(self.raw)
        return body

    @property
    def text(self) -> str:
        """The answer's text."""
        if self.wire == "chat":
            return str(self.body["choices"][0]["message"]["content"])
        if self.wire == "responses":
            return str(self.body["output"][0]["content"][0]["text"])
        return str(self.body["content"][0]["text"])

    @property
    def error_type(self) -> str:
        return str(self.body["error"]["type"])


class WireClient:
    """One caller, with or without a key, on one of the three wires."""

    def __init__(
        self, base_url: str, session: aiohttp.ClientSession, wire: str = "chat", key: str | None = None
    ) -> None:
        self._url = base_url + ADDRESSES[wire]
        self._session = session
        self._wire = wire
        self._headers: dict[str, str] = {"anthropic-version": "2023-06-01"} if wire == "messages" else {}
        if key is not None:
            named = {"x-api-key": key} if wire == "messages" else {"Authorization": f"Bearer {key}"}
            self._headers.update(named)

    def body(self, text: str) -> dict[str, object]:
        """A request about the text with a line of instructions, in the wire's words."""
        said: list[dict[str, str]] = [{"role": "user", "content": text}]
        if self._wire == "responses":
            return {"model": "m", "instructions": "Classify.", "input": said}
        if self._wire == "messages":
            return {"model": "m", "max_tokens": 500, "system": "Classify.", "messages": said}
        return {"model": "m", "messages": [{"role": "system", "content": "Classify."}, *said]}

    async def ask(
        self, text: str, more: Mapping[str, object] | None = None, headers: Mapping[str, str] | None = None
    ) -> Raw:
        """Send a request about the text, with `more` fields."""
        body = BytesIO(json.dumps({**self.body(text), **(more or {})}).encode())
        sent = {**self._headers, **(headers or {})}
        async with self._session.post(self._url, data=body, headers=sent) as response:
            return Raw(self._wire, response.status, response.headers.copy(), await response.read())


def journal_of(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
