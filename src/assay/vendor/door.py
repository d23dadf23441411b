"""The listening socket: opened, closed and opened again at the same port."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final

from aiohttp import web

from assay.vendor.delivery import reset
from assay.vendor.errors import VendorSettingsError
from assay.vendor.settings import Down, VendorConfig

_BACKLOG: Final = 4096


class Door:
    """Lets callers in, or not.

    While it is `refusing`, the port is bound but nobody listens: a caller is refused by the system, and no
    other program takes the port.
    """

    def __init__(self, host: str, interrupted: Callable[[], None]) -> None:
        """`interrupted` is called before calls in flight are broken off."""
        self._host = host
        self._interrupted = interrupted
        self._runner: web.AppRunner | None = None
        self._server: asyncio.Server | None = None
        self._held: socket.socket | None = None
        self._port = 0
        self._down: Down = "no"
        self._spared: asyncio.BaseTransport | None = None
        self._opening: asyncio.Task[None] | None = None

    async def open(self, runner: web.AppRunner, config: VendorConfig) -> int:
        """Listen; returns the port. Raises VendorSettingsError where the port is taken."""
        self._runner = runner
        self._port = config.port
        try:
            self._held = self._bind()
            self._port = self._held.getsockname()[1]
            if config.down != "refusing":
                await self._listen()
        except OSError as error:
            raise VendorSettingsError(
                f"port {config.port} cannot be used; choose another --port, or 0"
            ) from error
        self._down = config.down
        return self._port

    def spare(self, request: web.Request | None) -> None:
        """The next change breaks off every connection but this one."""
        self._spared = None if request is None else request.transport

    def follow(self, down: Down) -> None:
        """Do what the setting `down` says, if it changed. Opening takes a moment: see `followed`."""
        before, self._down = self._down, down
        if down == before:
            return
        if down != "no":
            self._break_off_all()
        if down == "refusing":
            self._stop_listening()
        elif self._server is None and (self._opening is None or self._opening.done()):
            self._opening = asyncio.ensure_future(self._listen())

    async def followed(self) -> None:
        """Wait until the door is as told."""
        if self._opening is not None:
            await self._opening

    async def close(self) -> None:
        """Listen no more, for good."""
        await self.followed()
        self._stop_listening(hold=False)

    def _bind(self) -> socket.socket:
        family, kind, protocol, _, address = socket.getaddrinfo(
            self._host, self._port, type=socket.SOCK_STREAM
        )[0]
        held = socket.socket(family, kind, protocol)
        try:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind(address)
        except OSError:
            held.close()
            raise
        return held

    async def _listen(self) -> None:
        runner, held = self._runner, self._held
        if runner is None or runner.server is None or held is None:
            return
        self._server = await asyncio.get_running_loop().create_server(
            runner.server, sock=held, backlog=_BACKLOG
        )
        self._held = None
        if self._down == "refusing":  # changed again meanwhile
            self._stop_listening()

    def _stop_listening(self, *, hold: bool = True) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
            self._held = self._bind() if hold else None
        elif not hold and self._held is not None:
            self._held.close()
            self._held = None

    def _break_off_all(self) -> None:
        self._interrupted()
        server = None if self._runner is None else self._runner.server
        for connection in [] if server is None else server.connections:
            transport = connection.transport
            if transport is not None and transport is not self._spared:
                reset(transport)
        self._spared = None
