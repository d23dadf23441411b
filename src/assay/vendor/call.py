"""One call: door, limits, work, waiting, reply. What happens to it is written into its journal entry."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from email.utils import format_datetime
from math import ceil
from typing import Final

from aiohttp import web

from assay.vendor.delivery import Parcel, break_off, cut_json, drip, packed, start, whole
from assay.vendor.entries import Entry
from assay.vendor.errors import WireError, refusal
from assay.vendor.faults import AT_THE_DOOR, HTML_PAGE, Said
from assay.vendor.idempotency import FirstReplies, FirstReply, fingerprint
from assay.vendor.limits import Account, Accounts
from assay.vendor.price import written
from assay.vendor.settings import VendorConfig
from assay.vendor.wire import Asked, Reply, Wire, limited
from assay.vendor.work import Done, Work

SWITCHED: Final = "-switched"
_KEY_STATES: Final = {"invalid": "unauthorised", "forbidden": "forbidden", "exhausted": "quota"}


@dataclass(frozen=True, slots=True)
class Desk:
    """What calls share."""

    work: Work
    accounts: Accounts
    replies: FirstReplies


class Call:
    """A call whose whole request has arrived."""

    __slots__ = ("_account", "_admitted", "_config", "_desk", "_request", "_wire", "cost", "entry")

    def __init__(
        self, desk: Desk, wire: Wire, request: web.Request, config: VendorConfig, entry: Entry
    ) -> None:
        self.entry = entry
        self.cost = Decimal(0)
        self._desk = desk
        self._wire = wire
        self._request = request
        self._config = config
        self._account: Account | None = None
        self._admitted = False
        if config.price is not None:
            entry.cost = "0"

    async def answer(self, body: bytes | None) -> web.StreamResponse:
        """Answer the call; an error is a reply too. What is raised is no answer."""
        entry = self.entry
        try:
            if self._config.down == "closing":
                return self._cut_off("down")
            return await self._respond(body)
        except WireError as error:
            response = self._refused(error)
            entry.status = response.status
            entry.outcome = "refused" if entry.fault is None else "replied"
            return response

    def end(self) -> None:
        """The call has ended, however."""
        if self._admitted and self._account is not None:
            self._account.release()

    async def _respond(self, body: bytes | None) -> web.StreamResponse:
        config, entry, wire = self._config, self.entry, self._wire
        authorise(wire, self._request.headers, config)
        if config.key_state != "valid":
            entry.fault = _KEY_STATES[config.key_state]
            raise refusal(entry.fault)
        if body is None:
            raise WireError(413, "The request is larger than this vendor reads.")
        asked = wire.read(body, self._request.headers)
        entry.model = asked.model
        if config.model not in (None, asked.model):
            raise WireError(
                404, "This vendor does not serve that model.", code="model_not_found", param="model"
            )
        self._account = self._desk.accounts.get(entry.account or "")
        address = self._address()
        if address is not None and (first := self._desk.replies.find(address, body)) is not None:
            return await self._replay(first)
        return await self._work(asked, body, address)

    async def _work(
        self, asked: Asked, body: bytes, address: tuple[str, str, str] | None
    ) -> web.StreamResponse:
        entry, config, work = self.entry, self._config, self._desk.work
        done = work.do(asked, config)
        entry.found, entry.turn, entry.text_sha256 = done.found, done.turn, done.subject.hex()
        if done.fault not in AT_THE_DOOR:
            self._admit(done)
        work.count(done)
        entry.fault = done.fault
        if done.said is None:
            await _wait(done.pause)
            return self._instead_of_an_answer(done)
        # The work is paid for from here on, whether or not the client stays to hear the answer.
        self._bill(done)
        parcel = self._parcel(asked, done, done.said)
        if address is not None:
            ready_at = time.monotonic() + done.pause
            first = FirstReply(
                fingerprint(body),
                ready_at,
                entry.attempted_model or asked.model,
                entry.request_id,
                parcel.content_type,
                parcel.body,
            )
            self._desk.replies.keep(address, first)
        await _wait(done.pause)
        return await self._deliver(parcel)

    def _admit(self, done: Done) -> None:
        if self._account is None:
            return
        refused = self._account.admit(self._config, done.cost_in_tokens, time.monotonic())
        if refused is not None:
            self.entry.fault = f"limit_{refused.limit}"
            raise limited(refused)
        self._admitted = True

    def _bill(self, done: Done) -> None:
        entry, price = self.entry, self._config.price
        entry.wrong = done.wrong
        entry.prompt_tokens, entry.cached_tokens = done.prompt_tokens, done.cached_tokens
        entry.completion_tokens, entry.billed = done.completion_tokens, True
        if price is not None:
            self.cost = price.cost(done.prompt_tokens, done.cached_tokens, done.completion_tokens)
            entry.cost = written(self.cost)

    def _parcel(self, asked: Asked, done: Done, said: Said) -> Parcel:
        config, entry = self._config, self.entry
        model = config.reply_model or asked.model
        if said.fault == "model_switch":
            model = config.switched_model or asked.model + SWITCHED
        entry.attempted_model = model
        entry.finish_reason = self._wire.finish_reason(said.finish_reason)
        reply = Reply(
            request_id=entry.request_id,
            created=int(time.time()),
            model=model,
            content=said.content,
            finish=said.finish_reason,
            prompt_tokens=done.prompt_tokens,
            cached_tokens=done.cached_tokens,
            completion_tokens=done.completion_tokens,
            empty=said.fault == "empty_choices",
            with_usage=said.fault != "missing_usage",
        )
        body = packed(self._wire.reply(reply))
        if said.fault == "truncated_json":
            body = cut_json(body)
        return Parcel(200, body, {self._wire.request_id_header: entry.request_id}, fault=said.fault)

    async def _deliver(self, parcel: Parcel) -> web.StreamResponse:
        entry, fault = self.entry, parcel.fault
        if fault == "hang":
            await asyncio.sleep(self._config.hang_seconds)
            return self._cut_off(fault)
        if fault == "reset":
            return self._cut_off(fault)
        parcel.headers.update(self._limit_headers())
        if fault == "drip":
            response = await start(self._request, parcel)
            await drip(response, parcel.body, self._config.drip_seconds)
            entry.outcome, entry.status = "replied", parcel.status
            return response
        if fault == "reset_mid_body":
            response = await start(self._request, parcel)
            await response.write(parcel.body[: len(parcel.body) // 2])
            self._cut_off(fault)
            entry.status = parcel.status
            return response
        entry.outcome, entry.status = "replied", parcel.status
        return whole(parcel)

    async def _replay(self, first: FirstReply) -> web.StreamResponse:
        entry = self.entry
        entry.kind, entry.attempted_model, entry.request_id = "replay", first.model, first.request_id
        await _wait(first.ready_at - time.monotonic())
        headers = {self._wire.request_id_header: first.request_id}
        return await self._deliver(Parcel(200, first.body, headers, first.content_type))

    def _instead_of_an_answer(self, done: Done) -> web.StreamResponse:
        if done.fault == "html":
            self.entry.outcome, self.entry.status = "replied", 200
            return whole(Parcel(200, HTML_PAGE, self._limit_headers(), "text/html"))
        raise refusal(done.fault or "", done.draws)

    def _refused(self, error: WireError) -> web.Response:
        status, body = self._wire.error(error, self.entry.request_id)
        headers = {self._wire.request_id_header: self.entry.request_id, **self._limit_headers()}
        if error.retry is not None:
            headers["Retry-After"] = self._retry_after(error.retry)
        return whole(Parcel(status, packed(body), headers))

    def _retry_after(self, wait: float) -> str:
        """Whole seconds, at least one for a limit (rounded up), or the date of then."""
        seconds = ceil(wait) if wait else self._config.retry_after
        if self._config.retry_after_form == "seconds":
            return str(seconds)
        return format_datetime(datetime.fromtimestamp(ceil(time.time()) + seconds, UTC), usegmt=True)

    def _limit_headers(self) -> dict[str, str]:
        account = self._account
        if account is None or self._config.hide_limits or not (account.requests or account.tokens):
            return {}
        now = time.monotonic()
        requests = None if account.requests is None else account.requests.state(now)
        tokens = None if account.tokens is None else account.tokens.state(now)
        return self._wire.limit_headers(requests, tokens, time.time())

    def _cut_off(self, fault: str) -> web.Response:
        self.entry.fault, self.entry.outcome = fault, "cut"
        break_off(self._request)
        return web.Response()

    def _address(self) -> tuple[str, str, str] | None:
        key = self.entry.idempotency_key
        if key is None or self._config.idempotency != "honoured":
            return None
        return self._wire.name, self.entry.account or "", key


def authorise(wire: Wire, headers: Mapping[str, str], config: VendorConfig) -> None:
    """Raises WireError (401) unless the key is the one that callers must send, if any."""
    if config.api_key is not None and wire.key(headers) != config.api_key:
        raise refusal("unauthorised")


async def _wait(seconds: float) -> None:
    if seconds > 0:
        await asyncio.sleep(seconds)
