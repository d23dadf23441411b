"""A raw HTTP/1.1 server on loopback that answers well or badly on demand.

The first segment of the path names the scenario, so one server serves every test. Written on sockets: a
web framework would not send what is broken here.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

Scenario = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

CONTENT = '{"category": "billing", "note": "ünï"}'
MEBIBYTE = 1024 * 1024


@dataclass(frozen=True)
class Seen:
    """One request as it came in."""

    path: str
    headers: Mapping[str, str]
    body: Any


@dataclass
class FaultServer:
    """`base_url(scenario)` is what a model is pointed at; `seen` are the requests, in order."""

    port: int = 0
    seen: list[Seen] = field(default_factory=list)
    scenarios: dict[str, Scenario] = field(default_factory=dict)
    connections: int = 0
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    client_left: asyncio.Event = field(default_factory=asyncio.Event)

    def base_url(self, scenario: str) -> str:
        return f"http://127.0.0.1:{self.port}/{scenario}/v1"


def completion(**changes: Any) -> dict[str, Any]:
    """A good chat completion; `changes` replace or add top-level fields."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "small-model-2026-01-01",
        "choices": [
            {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": CONTENT}}
        ],
        "usage": {
            "prompt_tokens": 1000,
            "completion_tokens": 50,
            "prompt_tokens_details": {"cached_tokens": 200},
            "completion_tokens_details": {"reasoning_tokens": 7},
        },
        **changes,
    }


def choice(finish_reason: str | None = "stop", **message: Any) -> list[dict[str, Any]]:
    return [{"index": 0, "finish_reason": finish_reason, "message": {"role": "assistant", **message}}]


def http(status: int, body: bytes | str | dict[str, Any], **headers: str) -> bytes:
    """A whole reply. Header names are written with _ for -."""
    if isinstance(body, dict):
        body = json.dumps(body)
    data = body.encode() if isinstance(body, str) else body
    lines = {"Content-Type": "application/json", "X-Request-Id": "req-7", "Content-Length": str(len(data))}
    lines |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {status} Status\r\n{head}\r\n".encode() + data


def always(data: bytes) -> Scenario:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()

    return serve


def then_stall(data: bytes) -> Scenario:
    """Send `data`, then nothing until the client goes away."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        await reader.read()

    return serve


def then_close(data: bytes) -> Scenario:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        writer.close()

    return serve


async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Close with RST instead of FIN."""
    sock: socket.socket = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def reset_after(data: bytes) -> Scenario:
    """Send `data`, then RST: on loopback what was written has arrived by then."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        await reset(reader, writer)

    return serve


async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One byte every 20 ms: each read succeeds, the whole never comes."""
    writer.write(http(200, b" " * 100_000).split(b"\r\n\r\n", 1)[0] + b"\r\n\r\n")
    while not reader.at_eof():
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.02)


async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """100 MiB in chunks."""
    writer.write(b"HTTP/1.1 200 OK\r\nX-Request-Id: req-7\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(100):
        writer.write(b"100000\r\n" + b" " * MEBIBYTE + b"\r\n")
        await writer.drain()


def zipped(data: bytes) -> bytes:
    return http(200, gzip.compress(data), Content_Encoding="gzip")


async def _request(reader: asyncio.StreamReader) -> Seen | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    except asyncio.IncompleteReadError:
        return None
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Seen(head[0].split(" ")[1], headers, json.loads(body))


async def _serve(server: FaultServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    server.connections += 1
    try:
        while (request := await _request(reader)) is not None:
            server.seen.append(request)
            server.reached.set()
            await server.scenarios[request.path.split("/")[1]](reader, writer)
    except ConnectionError:
        pass  # the client hung up, which is what several scenarios provoke
    finally:
        server.client_left.set()
        writer.close()


@asynccontextmanager
async def fault_server(scenarios: Mapping[str, Scenario]) -> AsyncIterator[FaultServer]:
    """Serve `scenarios` on a free loopback port."""
    state = FaultServer(scenarios=dict(scenarios))
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(_serve(state, reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    state.port = server.sockets[0].getsockname()[1]
    try:
        yield state
    finally:
        server.close()
        pending = list(tasks)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
