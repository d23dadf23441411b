"""How a reply leaves: whole, byte by byte, broken off, or not at all."""

from __future__ import annotations

import asyncio
import json
import math
import socket
import struct
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web

from assay.vendor.gold import JsonObject

_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
CONTENT_LENGTH: Final = "Content-Length"


@dataclass(slots=True)
class Parcel:
    """A reply ready to leave. `fault` may say that it does not leave whole."""

    status: int
    body: bytes = field(repr=False)
    headers: dict[str, str]
    content_type: str = "application/json"
    fault: str | None = None


def packed(body: JsonObject) -> bytes:
    """A body of JSON."""
    return json.dumps(body).encode()


def whole(parcel: Parcel) -> web.Response:
    """The reply as it is."""
    return web.Response(
        status=parcel.status, body=parcel.body, headers=parcel.headers, content_type=parcel.content_type
    )


def cut_json(body: bytes) -> bytes:
    """The first half of a body, which is no JSON any more."""
    return body[: len(body) // 2]


def break_off(request: web.Request) -> None:
    """Close the connection with a reset: the client learns at once that it is broken, not ended."""
    if request.transport is not None:
        reset(request.transport)


def reset(transport: asyncio.BaseTransport) -> None:
    """Close a connection with a reset."""
    held = transport.get_extra_info("socket")
    if held is not None:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    if isinstance(transport, asyncio.WriteTransport):
        transport.abort()


async def start(request: web.Request, parcel: Parcel) -> web.StreamResponse:
    """Send the headers of a reply whose body follows in pieces."""
    response = web.StreamResponse(
        status=parcel.status, headers={**parcel.headers, CONTENT_LENGTH: str(len(parcel.body))}
    )
    response.content_type = parcel.content_type
    await response.prepare(request)
    return response


async def drip(response: web.StreamResponse, body: bytes, seconds: float) -> None:
    """Send the body in steps of one byte (of more, where a step would be shorter than a millisecond)."""
    steps = max(1, min(len(body), int(seconds * 1000)))
    size = math.ceil(len(body) / steps)
    pause = seconds / max(1, math.ceil(len(body) / size))
    for begin in range(0, len(body), size):
        await asyncio.sleep(pause)
        await response.write(body[begin : begin + size])
