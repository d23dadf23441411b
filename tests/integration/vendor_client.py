"""A client for the tests of the practice vendor that speaks the wire with nothing but aiohttp."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

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


def journal_of(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
