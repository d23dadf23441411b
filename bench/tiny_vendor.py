"""A vendor that costs next to nothing: one fixed answer per path, over HTTP/1.1 with keep-alive.

What a client costs per call is measured against it; the practice vendor would be the slower of the two.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from bench.answers import ANSWER
from bench.children import ChildFailed

_CHAT: Final = {
    "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "bench-1",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": ANSWER}}],
    "usage": {"prompt_tokens": 120, "completion_tokens": 30, "total_tokens": 150},
}  # fmt: skip
_MESSAGE: Final = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "bench-1", "stop_reason": "end_turn",
    "stop_sequence": None, "content": [{"type": "text", "text": ANSWER}],
    "usage": {"input_tokens": 120, "output_tokens": 30},
}  # fmt: skip


def _reply(body: Mapping[str, object]) -> bytes:
    content = json.dumps(body).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n"
    return f"{head}x-request-id: req-1\r\n\r\n".encode() + content


_REPLIES: Final = {False: _reply(_CHAT), True: _reply(_MESSAGE)}


class _Connection(asyncio.Protocol):
    """Answers every request as soon as its body is whole."""

    def __init__(self) -> None:
        self._held = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._held += data
        while (end := self._held.find(b"\r\n\r\n")) >= 0:
            head = self._held[:end].lower()
            start = head.find(b"content-length:")
            length = int(head[start + 15 :].split(b"\r\n", 1)[0]) if start >= 0 else 0
            if len(self._held) < end + 4 + length:
                return
            self._held = self._held[end + 4 + length :]
            if self._transport is not None:
                self._transport.write(_REPLIES[b"/messages" in head.split(b"\r\n", 1)[0]])


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(_Connection, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def running_tiny_vendor() -> Iterator[tuple[str, int]]:
    """Its address (without a path) and its process number."""
    command = [sys.executable, "-m", "bench.tiny_vendor"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            port = process.stdout.readline().strip() if process.stdout is not None else ""
            if not port:
                raise ChildFailed("the tiny vendor did not start")
            yield f"http://127.0.0.1:{port}", process.pid
        finally:
            process.kill()


if __name__ == "__main__":
    asyncio.run(_serve())
