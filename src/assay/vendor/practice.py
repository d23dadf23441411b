"""The vendor's routes: calls, and looking at and changing the vendor itself."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Final

from aiohttp import web

from assay.vendor.call import Call, Desk, authorise
from assay.vendor.changes import settings_shown
from assay.vendor.control import Control
from assay.vendor.delivery import Parcel, break_off, packed, whole
from assay.vendor.door import Door
from assay.vendor.entries import Change, Entry, Origin
from assay.vendor.errors import VendorSettingsError, WireError
from assay.vendor.gold import Json, JsonObject
from assay.vendor.idempotency import FirstReplies
from assay.vendor.journal import Journal
from assay.vendor.limits import Accounts
from assay.vendor.settings import VendorConfig
from assay.vendor.timeline import Timeline, read_timeline
from assay.vendor.wire import Wire
from assay.vendor.wire_chat import ChatWire
from assay.vendor.wire_messages import MessagesWire, messages_model_list
from assay.vendor.wire_openai import model_list
from assay.vendor.wire_responses import ResponsesWire
from assay.vendor.work import Work

LARGEST_REQUEST: Final = 64 * 2**20
DEFAULT_MODEL: Final = "practice-1"
CHAT: Final = ChatWire()
MESSAGES: Final = MessagesWire()
WIRES: Final[Sequence[Wire]] = (CHAT, ResponsesWire(), MESSAGES)


class Practice:
    """The vendor's desk: handlers for its routes, with everything they share."""

    def __init__(self, config: VendorConfig) -> None:
        """Read the gold file and the timeline and open the journal; raises VendorSettingsError."""
        timeline = Timeline() if config.timeline is None else read_timeline(config.timeline, config)
        work = Work(config)
        self.journal = Journal(config.journal, config.remembered_keys)
        self.stopping = False
        self.door = Door(config.host, self._interrupted)
        self._accounts = Accounts(self.journal.stats)
        self._desk = Desk(work, self._accounts, FirstReplies())
        self._run = os.urandom(4).hex()
        self._sequence = 0
        self._in_flight: dict[int, Entry] = {}
        self.control = Control(self._run, config, timeline)

    def routes(self) -> list[web.RouteDef]:
        """The routes, the last of which answers everything else with 404."""
        return [
            *(web.post(wire.address, partial(self.complete, wire)) for wire in WIRES),
            web.get("/v1/models", self.models),
            web.get("/practice/stats", self.stats),
            web.get("/practice/keys/{key:.+}", self.key),
            web.get("/practice/settings", self.settings),
            web.post("/practice/settings", self.change_settings),
            web.route("*", "/{rest:.*}", self.nothing_here),
        ]

    async def complete(self, wire: Wire, request: web.Request) -> web.StreamResponse:
        """One call on a wire. A call counts once its whole request has arrived."""
        try:
            body: bytes | None = await request.read()
        except web.HTTPRequestEntityTooLarge:
            body = None
        started = time.perf_counter()
        entry = self._arrive(wire, request)
        call = Call(self._desk, wire, request, self.control.config, entry)
        try:
            return await call.answer(body)
        except asyncio.CancelledError:
            if entry.outcome != "cut":
                entry.outcome = "vendor_stopped" if self.stopping else "client_gone"
            raise
        except ConnectionError:
            entry.outcome = "client_gone"
            raise
        finally:
            entry.seconds = round(time.perf_counter() - started, 6)
            call.end()
            del self._in_flight[entry.sequence]
            self.journal.ended(entry, call.cost)

    async def change(
        self,
        settings: JsonObject,
        origin: Origin,
        seconds: float | None = None,
        spare: web.Request | None = None,
    ) -> None:
        """Change settings now, for good or for so many seconds; raises VendorSettingsError.

        The connection of `spare` stays when all others are broken off.
        """
        self.door.spare(spare)
        self.control.change(settings, origin, seconds)
        await self.door.followed()

    async def models(self, request: web.Request) -> web.Response:
        """`GET /v1/models`."""
        config = self.control.config
        wire: Wire = MESSAGES if "anthropic-version" in request.headers else CHAT
        if config.down == "closing":
            break_off(request)
        try:
            authorise(wire, request.headers, config)
        except WireError as error:
            status, body = wire.error(error, "req_none")
            return _respond(status, body)
        names = (config.model or DEFAULT_MODEL,)
        return _respond(200, messages_model_list(names) if wire is MESSAGES else model_list(names))

    async def stats(self, request: web.Request) -> web.Response:
        """`GET /practice/stats`: counts since the start."""
        return _respond(200, self.journal.stats.as_json())

    async def key(self, request: web.Request) -> web.Response:
        """`GET /practice/keys/KEY`: how many calls carried this Idempotency-Key."""
        return _respond(200, {"calls": self.journal.calls_with_key(request.match_info["key"])})

    async def settings(self, request: web.Request) -> web.Response:
        """`GET /practice/settings`: what can change, as it is now."""
        return _respond(200, settings_shown(self.control.config))

    async def change_settings(self, request: web.Request) -> web.Response:
        """`POST /practice/settings`: change the named settings at once, `seconds` says for how long."""
        try:
            settings: Json = json.loads(await request.read())
            if not isinstance(settings, dict):
                raise VendorSettingsError("send a JSON object of settings")
            seconds = settings.pop("seconds", None)
            if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, (int, float))):
                raise VendorSettingsError("seconds must be a number")
            await self.change(settings, "request", seconds, spare=request)
        except ValueError as error:  # VendorSettingsError is one; the others come from reading JSON
            said = str(error) if isinstance(error, VendorSettingsError) else "the body is not JSON"
            return _respond(400, {"error": {"message": said}})
        return _respond(200, settings_shown(self.control.config))

    async def nothing_here(self, request: web.Request) -> web.Response:
        """Any other address."""
        message = "There is nothing at this address; calls go to " + ", ".join(one.address for one in WIRES)
        return _respond(*CHAT.error(WireError(404, message + "."), "req_none"))

    def begin(self) -> None:
        """The vendor listens, and time begins."""
        self.control.start(self._told)

    def _told(self, change: Change) -> None:
        self.journal.changed(change)
        self.door.follow(self.control.config.down)

    def _interrupted(self) -> None:
        for entry in self._in_flight.values():
            entry.outcome, entry.fault = "cut", "down"

    def _arrive(self, wire: Wire, request: web.Request) -> Entry:
        self.control.first_call()
        self._sequence += 1
        key = request.headers.get("Idempotency-Key")
        self.journal.arrived(key)
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        entry = Entry(self._run, self._sequence, now, key, f"req_{self._run}_{self._sequence}")
        entry.wire, entry.account = wire.name, self._accounts.name(wire.key(request.headers))
        self._in_flight[entry.sequence] = entry
        return entry


def _respond(status: int, body: JsonObject) -> web.Response:
    return whole(Parcel(status, packed(body), {}))
