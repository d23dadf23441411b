"""A TCP proxy before PostgreSQL that can delay, go silent, and lose a COMMIT or the reply to it."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from psycopg.conninfo import conninfo_to_dict, make_conninfo

# A simple query message that says COMMIT: type, length with itself, text, NUL.
_COMMIT: Final = b"Q" + struct.pack("!i", 11) + b"COMMIT\x00"


@dataclass
class Trouble:
    """What the proxy does to the connections that pass it. Set from any thread.

    `lost_replies`: so many COMMITs reach the server, are answered, and the client hears a broken connection
    instead. `lost_commits`: so many COMMITs never reach the server. `silent`: bytes are taken and not handed
    on, in both directions. `silent_replies`: as `lost_replies`, but the connection stays open and mute.
    """

    lost_replies: int = 0
    lost_commits: int = 0
    silent_replies: int = 0
    silent: bool = False
    delay_seconds: float = 0.0
    commits_seen: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, name: str) -> bool:
        """Use up one of a counted trouble."""
        with self.lock:
            left = getattr(self, name)
            setattr(self, name, max(left - 1, 0))
            return bool(left)


@dataclass(eq=False)
class _Link:
    client: tuple[asyncio.StreamReader, asyncio.StreamWriter]
    server: tuple[asyncio.StreamReader, asyncio.StreamWriter]
    mute: bool = False
    cut_at_reply: bool = False
    mute_at_reply: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class TcpProxy:
    """Forwards to the server of `url`; `url` of the proxy itself goes through it, in clear text."""

    def __init__(self, url: str) -> None:
        parts = conninfo_to_dict(url)
        self._host, self._port = str(parts.get("host") or "127.0.0.1"), int(str(parts.get("port") or 5432))
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        self.url = make_conninfo(url, host="127.0.0.1", port=port, sslmode="disable", gssencmode="disable")
        self.trouble = Trouble()
        self._links: set[_Link] = set()

    async def serve(self, ready: threading.Event, end: asyncio.Event) -> None:
        """Until `end`."""
        server = await asyncio.start_server(self._accept, sock=self._listener)
        ready.set()
        await end.wait()
        server.close()
        links = list(self._links)
        for link in links:
            _reset(link.client[1])
            link.server[1].close()
        await asyncio.gather(*(link.ended.wait() for link in links))

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._host.startswith("/"):
            server = await asyncio.open_unix_connection(os.path.join(self._host, f".s.PGSQL.{self._port}"))
        else:
            server = await asyncio.open_connection(self._host, self._port)
        link = _Link((reader, writer), server)
        self._links.add(link)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._up(link))
                group.create_task(self._down(link))
        finally:
            self._links.discard(link)
            link.ended.set()
            for _, end in (link.client, link.server):
                end.close()

    async def _up(self, link: _Link) -> None:
        """From the client to the server."""
        while chunk := await _read(link.client[0]):
            if chunk == _COMMIT and not self._commit(link):
                break
            await self._pass(link, chunk, link.server[1])
        link.server[1].close()

    def _commit(self, link: _Link) -> bool:
        """What happens to this COMMIT; False: it is lost, and the connection with it."""
        self.trouble.commits_seen += 1
        if self.trouble.take("lost_commits"):
            _reset(link.client[1])
            return False
        link.cut_at_reply = self.trouble.take("lost_replies")
        link.mute_at_reply = self.trouble.take("silent_replies")
        return True

    async def _down(self, link: _Link) -> None:
        """From the server to the client."""
        while chunk := await _read(link.server[0]):
            if link.cut_at_reply:
                _reset(link.client[1])
                break
            link.mute = link.mute or link.mute_at_reply
            await self._pass(link, chunk, link.client[1])
        link.client[1].close()

    async def _pass(self, link: _Link, chunk: bytes, to: asyncio.StreamWriter) -> None:
        if self.trouble.delay_seconds:
            await asyncio.sleep(self.trouble.delay_seconds)
        if link.mute or self.trouble.silent:
            link.mute = True
            return
        to.write(chunk)


async def _read(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(65536)
    except (ConnectionError, OSError):
        return b""


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST: the other side gets an error, not an orderly end."""
    raw = writer.get_extra_info("socket")
    if raw is not None and not writer.is_closing():
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.close()


@contextmanager
def proxied(url: str) -> Iterator[TcpProxy]:
    """A running proxy, on a thread of its own."""
    proxy = TcpProxy(url)
    ready = threading.Event()
    loops: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def live() -> None:
        end = asyncio.Event()
        loops.append((asyncio.get_running_loop(), end))
        await proxy.serve(ready, end)

    thread = threading.Thread(target=lambda: asyncio.run(live()), name="proxy", daemon=True)
    thread.start()
    assert ready.wait(30)
    try:
        yield proxy
    finally:
        loop, end = loops[0]
        loop.call_soon_threadsafe(end.set)
        thread.join(30)
