"""A TCP proxy before a Kafka broker that can delay, go silent, and lose the reply to a kind of request."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

# Numbers of requests, as the protocol has them.
FETCH: Final = 1
OFFSET_COMMIT: Final = 8
HEARTBEAT: Final = 12


@dataclass
class Trouble:
    """`lost_replies`: of a kind of request, so many reach the broker, and the connection breaks instead of
    the answer. `silent`: bytes are taken and not handed on. `delay_seconds`: of each message, both ways."""

    lost_replies: Counter[int] = field(default_factory=Counter)
    silent: bool = False
    delay_seconds: float = 0.0
    seen: Counter[int] = field(default_factory=Counter)
    lost: Counter[int] = field(default_factory=Counter)


class KafkaProxy:
    """Forwards to one port of this machine; belongs to one event loop."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.trouble = Trouble()
        self._links: set[asyncio.Task[None]] = set()

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @asynccontextmanager
    async def before(self, port: int) -> AsyncIterator[None]:
        """Forward for as long as the block lasts."""

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._links.add(task)
            try:
                await self._link(reader, writer, port)
            finally:
                self._links.discard(task)

        server = await asyncio.start_server(accept, sock=self._listener)
        try:
            yield
        finally:
            server.close()
            links = list(self._links)
            for task in links:
                task.cancel()
            await asyncio.gather(*links, return_exceptions=True)

    async def _link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            _reset(writer)
            return
        cut: set[bytes] = set()
        ways = [asyncio.create_task(self._up(reader, far_writer, cut)),
                asyncio.create_task(self._down(far_reader, writer, cut))]  # fmt: skip
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            _reset(writer)
            far_writer.close()

    async def _up(self, reader: asyncio.StreamReader, to: asyncio.StreamWriter, cut: set[bytes]) -> None:
        """Requests: kind, version, correlation id."""
        while (frame := await _frame(reader)) is not None:
            kind = struct.unpack_from("!h", frame)[0]
            self.trouble.seen[kind] += 1
            if self.trouble.lost_replies[kind] > 0:
                self.trouble.lost_replies[kind] -= 1
                self.trouble.lost[kind] += 1
                cut.add(frame[4:8])
            await self._pass(frame, to)

    async def _down(self, reader: asyncio.StreamReader, to: asyncio.StreamWriter, cut: set[bytes]) -> None:
        """Answers: correlation id."""
        while (frame := await _frame(reader)) is not None:
            if frame[:4] in cut:
                return
            await self._pass(frame, to)

    async def _pass(self, frame: bytes, to: asyncio.StreamWriter) -> None:
        if self.trouble.delay_seconds:
            await asyncio.sleep(self.trouble.delay_seconds)
        if not self.trouble.silent:
            to.write(struct.pack("!i", len(frame)) + frame)
            with contextlib.suppress(ConnectionError):
                await to.drain()


async def _frame(reader: asyncio.StreamReader) -> bytes | None:
    try:
        (size,) = struct.unpack("!i", await reader.readexactly(4))
        return await reader.readexactly(size)
    except (asyncio.IncompleteReadError, OSError):
        return None


def _reset(writer: asyncio.StreamWriter) -> None:
    raw = writer.get_extra_info("socket")
    if raw is not None and not writer.is_closing():
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.close()
