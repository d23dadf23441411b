"""Events as signed HTTP requests: one POST an event, or an array of several.

Signed as `assay.consumer.signature` says. Requests for one aggregate follow each other, those for others run
beside them. No redirects, no cookies; neither bodies nor secrets are logged or kept in errors.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

import aiohttp

from assay.adapters.sinks.lanes import Batch
from assay.adapters.sinks.webhook_reply import Verdict, verdict_of, wait_of
from assay.adapters.sinks.webhook_settings import WebhookSettings
from assay.consumer.signature import sign
from assay.domain.events import CONTENT_TYPE, UnfitEvent, body_of, headers_of
from assay.domain.outbox import Answer, Delivered, OutboxEvent, Undelivered
from assay.ports import SinkUnavailable

# Servers close idle connections after 5 s or later; leave the connection first.
_KEEPALIVE_SECONDS: Final = 4.0
_UNREAD_BYTES: Final = 64 * 1024
_SEVERAL: Final = 2
# What CloudEvents leaves unescaped in HTTP: printable ASCII but space, quote and percent.
_PLAIN: Final = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')


@dataclass(frozen=True, slots=True)
class _Reply:
    """What came of one request; `reason` is a code."""

    verdict: Verdict
    reason: str


class WebhookSink:
    """Delivers to one endpoint; see `WebhookSettings`.

    What follows from a reply: 2xx is delivered; 400, 409, 413, 422 and the like refuse this event for good;
    408, 425, 500, 502, 504 and silence leave it to another try. A redirect, 401, 403, 404, 429, 503, no
    connection, and a row of tries without any delivery concern the endpoint: nothing more is sent in this
    call, and where nothing was settled it raises `SinkUnavailable`. `Retry-After` is kept to: until then
    every call raises it.
    """

    def __init__(self, settings: WebhookSettings) -> None:
        self._settings = settings
        self._session: aiohttp.ClientSession | None = None
        self._not_before = 0.0

    @property
    def name(self) -> str:
        """`webhook:host`, without path and query: they may hold what only the two sides know."""
        return f"webhook:{self._settings.url.host}"

    @property
    def send_seconds(self) -> float:
        """How long a call of `publish` takes at most."""
        return self._settings.send_seconds

    async def publish(self, events: Sequence[OutboxEvent]) -> list[Answer]:
        """Deliver in order per aggregate; one answer per event. Raises `SinkUnavailable`."""
        if time.monotonic() < self._not_before:
            raise SinkUnavailable("webhook_asked_to_wait")
        if not events:
            return []
        sending = _Sending(self._settings, self._open(), Batch(events))
        closed = await sending.run()
        self._not_before = time.monotonic() + sending.wait
        if closed is not None and not sending.batch.settled:
            raise SinkUnavailable(closed)
        return sending.batch.answers(closed or "webhook_no_time")

    async def aclose(self) -> None:
        """Close all connections. May be called twice."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None or self._session.closed:
            settings = self._settings
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=settings.concurrency, keepalive_timeout=_KEEPALIVE_SECONDS
                ),
                timeout=aiohttp.ClientTimeout(
                    total=settings.request_seconds, sock_connect=settings.connect_seconds
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                headers={"User-Agent": "assay"},
            )
        return self._session


class _Sending:
    """One call of `publish`."""

    def __init__(self, settings: WebhookSettings, session: aiohttp.ClientSession, batch: Batch) -> None:
        self._settings = settings
        self._session = session
        self._free = asyncio.Semaphore(settings.concurrency)
        self._closed: str | None = None
        self._failed_in_a_row = 0
        self.batch = batch
        self.wait = 0.0

    async def run(self) -> str | None:
        """Send until all is sent, time is up or the endpoint is closed; why it is, as a code."""
        one = self._settings.batch == 1
        lanes = self.batch.lanes(None if one else self._settings.concurrency)
        try:
            async with asyncio.timeout(self._settings.send_seconds), asyncio.TaskGroup() as group:
                for lane in lanes:
                    group.create_task(self._lane(lane))
        except TimeoutError:
            return self._closed or "webhook_no_time"
        return self._closed

    async def _lane(self, lane: list[int]) -> None:
        async with self._free:
            for first in range(0, len(lane), self._settings.batch):
                await self._send(lane[first : first + self._settings.batch])

    async def _send(self, places: list[int]) -> None:
        """Send these in one request; where one of several is refused, find it by halves, in order."""
        sent = self._writable([place for place in places if not self.batch.blocked(place)])
        if not sent or self._closed is not None:
            return
        reply = await self._post([place for place, _ in sent], [body for _, body in sent])
        if reply.verdict is Verdict.CLOSED:
            self._closed = self._closed or reply.reason
        elif reply.verdict is Verdict.POISON and len(sent) > 1:
            middle = len(sent) // 2
            await self._send([place for place, _ in sent[:middle]])
            await self._send([place for place, _ in sent[middle:]])
        else:
            self._settle([place for place, _ in sent], reply)

    def _settle(self, places: list[int], reply: _Reply) -> None:
        for place in places:
            if reply.verdict is Verdict.DELIVERED:
                self.batch.answer(place, Delivered())
            elif not self.batch.blocked(place):
                self.batch.answer(place, Undelivered(reply.reason, reply.verdict is Verdict.POISON))
        self._failed_in_a_row = self._failed_in_a_row + 1 if reply.verdict is Verdict.RETRY else 0
        # One event that a receiver stumbles over concerns that event; so many different ones do not.
        most = max(_SEVERAL, self._settings.concurrency) if self.batch.settled else _SEVERAL
        if self._failed_in_a_row >= most:
            self._closed = self._closed or reply.reason

    def _writable(self, places: list[int]) -> list[tuple[int, bytes]]:
        """The bodies; an event that cannot be written is refused, and those behind it wait."""
        bodies = []
        for place in places:
            if self.batch.blocked(place):
                continue
            try:
                bodies.append((place, body_of(self.batch.events[place])))
            except UnfitEvent as error:
                self.batch.answer(place, Undelivered(error.reason, poison=True))
        return bodies

    async def _post(self, places: list[int], bodies: list[bytes]) -> _Reply:
        body, headers = self._request(places, bodies)
        # The errors hold the request with its headers: nothing of them goes on from here.
        try:
            response = await self._session.post(
                self._settings.url, data=body, headers=headers, allow_redirects=False
            )
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
            return _Reply(Verdict.CLOSED, "webhook_no_connection")
        except TimeoutError:
            return _Reply(Verdict.RETRY, "webhook_timeout")
        except aiohttp.ClientResponseError:
            return _Reply(Verdict.RETRY, "webhook_bad_reply")
        except (aiohttp.ClientError, OSError):
            return _Reply(Verdict.RETRY, "webhook_connection_lost")
        verdict = verdict_of(response.status)
        if verdict in {Verdict.RETRY, Verdict.CLOSED}:
            self.wait = max(self.wait, wait_of(response.headers, datetime.now(UTC)) or 0.0)
        await _leave(response)
        return _Reply(verdict, f"webhook_http_{response.status}")

    def _request(self, places: list[int], bodies: list[bytes]) -> tuple[bytes, dict[str, str]]:
        events = [self.batch.events[place] for place in places]
        now = int(time.time())
        if self._settings.batch == 1:
            told = {
                name.replace("ce_", "ce-"): quote(value, safe=_PLAIN)
                for name, value in headers_of(events[0], self._settings.source).items()
            }
            return bodies[0], {
                **told,
                **sign(str(events[0].event_id), now, bodies[0], self._settings.secrets),
            }
        body = b"[" + b",".join(bodies) + b"]"
        # The same events in one request have the same id whenever they are sent.
        message = hashlib.sha256(b"".join(event.event_id.bytes for event in events)).hexdigest()[:32]
        return body, {"content-type": CONTENT_TYPE, **sign(message, now, body, self._settings.secrets)}


async def _leave(response: aiohttp.ClientResponse) -> None:
    """Have done with an answer, whose status says all: read to its end, its connection serves again."""
    unread = _UNREAD_BYTES
    try:
        while unread > 0 and (chunk := await response.content.readany()):
            unread -= len(chunk)
    except (aiohttp.ClientError, TimeoutError, OSError):
        unread = 0
    finally:
        response.close() if unread <= 0 else response.release()
