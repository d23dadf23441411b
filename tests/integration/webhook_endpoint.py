"""An endpoint on this machine that answers as it is told, and believes only what is signed."""

from __future__ import annotations

import asyncio
import json
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from yarl import URL

from assay.consumer import BadSignature, verify

Answer = Callable[[list[dict[str, Any]]], "web.StreamResponse | Awaitable[web.StreamResponse]"]


def status(code: int, **headers: str) -> Answer:
    """Always this status."""
    return lambda _: web.Response(status=code, headers=headers)


@dataclass
class Endpoint:
    """What came, in the order it came; `answer` says what to reply."""

    secret: bytes
    url: URL
    answer: Answer = field(default_factory=lambda: status(204))
    requests: list[web.Request] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    busy: int = 0
    busiest: int = 0
    busy_with: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Verify, note, answer; two requests for one aggregate at once are a mistake of the sender."""
        body = await request.read()
        try:
            self.ids.append(verify(body, request.headers, [self.secret], time.time()))
        except BadSignature:
            return web.Response(status=401)
        told = json.loads(body)
        events = told if isinstance(told, list) else [told]
        aggregates = {event["aggregate"]["id"] for event in events}
        self.busy += 1
        self.busiest = max(self.busiest, self.busy)
        for aggregate in aggregates:
            self.busy_with[aggregate] += 1
            assert self.busy_with[aggregate] == 1, "two requests for one aggregate at once"
        try:
            self.requests.append(request)
            self.bodies.append(body)
            await asyncio.sleep(0)
            answer = self.answer(events)
            reply = await answer if isinstance(answer, Awaitable) else answer
            if reply.status < 300:
                self.events += events
            return reply
        finally:
            self.busy -= 1
            for aggregate in aggregates:
                self.busy_with[aggregate] -= 1

    def revisions(self, aggregate: str) -> list[int]:
        """What was delivered of a record, in order."""
        return [each["revision"] for each in self.events if each["aggregate"]["id"] == f"tickets/{aggregate}"]


@asynccontextmanager
async def serving(secret: bytes) -> AsyncIterator[Endpoint]:
    """An endpoint while the block lasts."""
    endpoint = Endpoint(secret, URL())
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_post("/hook/{rest:.*}", endpoint.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    endpoint.url = URL(f"http://127.0.0.1:{port}/hook/of?token=Zq7SecretTokenXw")
    try:
        yield endpoint
    finally:
        await runner.cleanup()
