"""Calls to a vendor by several clients, as many at once as asked for, in one process."""

from __future__ import annotations

import asyncio
import importlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp

from assay.adapters.providers.factory import make_model
from assay.domain.contract_schema import contract_schema
from assay.ports import ModelRequest
from bench.answers import ANSWER, Ticket
from bench.children import Figures

_SYSTEM: Final = "Label the ticket. " + "Answer with one JSON object of the schema. " * 15
_TEXT: Final = "The customer writes about an invoice that was charged twice. " * 6
_KEY: Final = "bench"
Call = Callable[[], Awaitable[str]]


def prepare(spec: dict[str, Any]) -> Callable[[], Figures]:
    """`client`, `address`, `calls`, `at_once`. Clients are imported here, before the word."""
    client = CLIENTS[spec["client"]]
    if spec["client"] in _PACKAGES:
        importlib.import_module(_PACKAGES[spec["client"]])
    return lambda: asyncio.run(_measure(client, spec))


async def _measure(client: Client, spec: dict[str, Any]) -> Figures:
    async with client(spec["address"]) as call:
        await _run(call, spec["at_once"], spec["at_once"])  # connections are made, not measured
        cpu, begun = time.process_time(), time.perf_counter()
        right = await _run(call, spec["calls"], spec["at_once"])
        return {"wall": time.perf_counter() - begun, "cpu": time.process_time() - cpu, "right": float(right)}


async def _run(call: Call, calls: int, at_once: int) -> int:
    """How many answers were the right one."""
    left, right = calls, 0

    async def work() -> None:
        nonlocal left, right
        while left > 0:
            left -= 1
            answer = await call()
            right += answer == ANSWER

    await asyncio.gather(*(work() for _ in range(at_once)))
    return right


Client = Callable[[str], AbstractAsyncContextManager[Call]]


def _schema() -> dict[str, Any]:
    return Ticket.model_json_schema()


@asynccontextmanager
async def _ours(address: str) -> AsyncIterator[Call]:
    model = make_model("openai:bench-1", base_dir=Path("/"), base_url=f"{address}/v1")
    schema = contract_schema(Ticket)

    async def call() -> str:
        response = await model.complete(
            ModelRequest("r", 1, (("system", _SYSTEM), ("user", _TEXT)), schema, "Ticket", {}, "key")
        )
        return str(response.content)

    yield call
    await model.aclose()


@asynccontextmanager
async def _aiohttp(address: str) -> AsyncIterator[Call]:
    body = {
        "model": "bench-1",
        "messages": [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": _TEXT}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "Ticket", "schema": _schema()}},
    }
    headers = {"Content-Type": "application/json"}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def call() -> str:
            content = json.dumps(body).encode()
            async with session.post(f"{address}/v1/chat/completions", data=content, headers=headers) as reply:
                read = json.loads(await reply.read())
            return str(read["choices"][0]["message"]["content"])

        yield call


@asynccontextmanager
async def _openai(address: str) -> AsyncIterator[Call]:
    client = importlib.import_module("openai").AsyncOpenAI(
        base_url=f"{address}/v1", api_key=_KEY, max_retries=0
    )
    schema = {"type": "json_schema", "json_schema": {"name": "Ticket", "schema": _schema()}}
    messages = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": _TEXT}]

    async def call() -> str:
        reply = await client.chat.completions.create(
            model="bench-1", messages=messages, response_format=schema
        )
        return str(reply.choices[0].message.content)

    yield call
    await client.close()


@asynccontextmanager
async def _anthropic(address: str) -> AsyncIterator[Call]:
    client = importlib.import_module("anthropic").AsyncAnthropic(
        base_url=address, api_key=_KEY, max_retries=0
    )

    async def call() -> str:
        reply = await client.messages.create(
            model="bench-1", max_tokens=300, system=_SYSTEM, messages=[{"role": "user", "content": _TEXT}]
        )
        return str(reply.content[0].text)

    yield call
    await client.close()


@asynccontextmanager
async def _pydantic_ai(address: str) -> AsyncIterator[Call]:
    direct = importlib.import_module("pydantic_ai.direct")
    messages = importlib.import_module("pydantic_ai.messages")
    provider = importlib.import_module("pydantic_ai.providers.openai").OpenAIProvider(
        base_url=f"{address}/v1", api_key=_KEY
    )
    model = importlib.import_module("pydantic_ai.models.openai").OpenAIChatModel("bench-1", provider=provider)
    request = messages.ModelRequest(
        parts=[messages.SystemPromptPart(content=_SYSTEM), messages.UserPromptPart(content=_TEXT)]
    )

    async def call() -> str:
        reply = await direct.model_request(model, [request])
        return str(reply.parts[0].content)

    yield call


CLIENTS: Final[dict[str, Client]] = {
    "assay": _ours,
    "aiohttp, bare": _aiohttp,
    "openai SDK": _openai,
    "anthropic SDK": _anthropic,
    "pydantic-ai": _pydantic_ai,
}
_PACKAGES: Final = {"openai SDK": "openai", "anthropic SDK": "anthropic", "pydantic-ai": "pydantic_ai.direct"}
