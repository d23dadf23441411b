"""One call from arrival to reply: check, find the text, draw, wait, say, journal."""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import time
from datetime import UTC, datetime
from typing import Final

from aiohttp import web

from assay.vendor.answers import Answers
from assay.vendor.chance import Draws, digest
from assay.vendor.faults import SERVER_ERRORS, Said, draw_fault, say
from assay.vendor.gold import JsonObject, read_gold
from assay.vendor.journal import Entry, Journal, SeenKeys
from assay.vendor.lookup import TextIndex
from assay.vendor.schema import allowed_labels, shape
from assay.vendor.settings import VendorConfig
from assay.vendor.wire import (
    ChatRequest,
    WireError,
    cut_to_tokens,
    model_list,
    read_request,
    reply,
    tokens_of,
)

LARGEST_REQUEST: Final = 64 * 2**20
DEFAULT_MODEL: Final = "practice-1"
_UNKNOWN_TEXTS_REMEMBERED: Final = 100_000


class Practice:
    """The vendor's desk: handlers for its routes, with everything they share."""

    def __init__(self, config: VendorConfig) -> None:
        """Read the gold file and open the journal; raises VendorSettingsError."""
        gold = read_gold(config.gold, config.label_column, config.text_column)
        self.journal = Journal(config.journal, config.remembered_keys)
        self.stopping = False
        self._config = config
        self._index = TextIndex(gold.answers)
        self._answers = Answers(gold, config.seed, config.error_rate)
        self._turns = SeenKeys(2 * (len(gold.answers) + _UNKNOWN_TEXTS_REMEMBERED))
        self._run = os.urandom(4).hex()
        self._sequence = 0

    def routes(self) -> list[web.RouteDef]:
        """The routes, the last of which answers everything else with 404."""
        return [
            web.post("/v1/chat/completions", self.complete),
            web.get("/v1/models", self.models),
            web.get("/practice/stats", self.stats),
            web.get("/practice/keys/{key:.+}", self.key),
            web.route("*", "/{rest:.*}", self.nothing_here),
        ]

    async def complete(self, request: web.Request) -> web.Response:
        """`POST /v1/chat/completions`. A call counts once its whole request has arrived."""
        try:
            body: bytes | None = await request.read()
        except web.HTTPRequestEntityTooLarge:
            body = None
        started = time.perf_counter()
        entry = self._arrive(request)
        try:
            response = await self._respond(request, body, entry)
            entry.outcome, entry.status = "replied", response.status
        except WireError as error:
            response = _respond_json(error.status, error.body, entry.request_id)
            entry.outcome, entry.status = "refused", error.status
        except asyncio.CancelledError:
            entry.outcome = "vendor_stopped" if self.stopping else "client_gone"
            raise
        finally:
            entry.seconds = round(time.perf_counter() - started, 6)
            self.journal.ended(entry)
        return response

    async def models(self, request: web.Request) -> web.Response:
        """`GET /v1/models`."""
        try:
            self._authorise(request)
        except WireError as error:
            return _respond_json(error.status, error.body)
        return _respond_json(200, model_list((self._config.model or DEFAULT_MODEL,)))

    async def stats(self, request: web.Request) -> web.Response:
        """`GET /practice/stats`: counts since the start."""
        return _respond_json(200, self.journal.stats.as_json())

    async def key(self, request: web.Request) -> web.Response:
        """`GET /practice/keys/KEY`: how many calls carried this Idempotency-Key."""
        return _respond_json(200, {"calls": self.journal.calls_with_key(request.match_info["key"])})

    async def nothing_here(self, request: web.Request) -> web.Response:
        """Any other address."""
        error = WireError(404, "There is nothing at this address; the chat API is /v1/chat/completions.")
        return _respond_json(error.status, error.body)

    def _arrive(self, request: web.Request) -> Entry:
        self._sequence += 1
        key = request.headers.get("Idempotency-Key")
        self.journal.arrived(key)
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        return Entry(self._run, self._sequence, now, key, f"req_{self._run}_{self._sequence}")

    async def _respond(self, request: web.Request, body: bytes | None, entry: Entry) -> web.Response:
        self._authorise(request)
        if body is None:
            raise WireError(413, "The request is larger than this vendor reads.")
        asked = read_request(body)
        entry.model = asked.model
        if self._config.model not in (None, asked.model):
            raise WireError(
                404, "This vendor does not serve that model.", code="model_not_found", param="model"
            )
        match = self._index.find(asked.message)
        subject = digest(match.text)
        turn = self._turns.add(subject + asked.model.encode("utf-8", "surrogatepass"))
        entry.found, entry.turn, entry.text_sha256 = match.how, turn, subject.hex()
        draws = Draws(self._config.seed, subject, f"call|{asked.model}", turn)
        fault = draw_fault(self._config.faults, draws)
        pause = self._config.latency * (1 + self._config.latency_spread * (2 * draws.unit() - 1))
        if fault == "rate_limited":
            entry.fault = fault
            return self._refuse(429, entry)
        if fault == "server_error":
            entry.fault = fault
            await _wait(pause)
            return self._refuse(draws.one_of(SERVER_ERRORS), entry)
        answer = self._answers.about(
            match, subject, asked.model, allowed_labels(asked.schema, self._config.label_field)
        )
        shaped = shape(answer, self._config.label_field, asked.schema, self._config.answer_fields)
        said = _within_limit(say(shaped, fault, draws), asked.max_tokens)
        # The work is paid for from here on, whether or not the client stays to hear the answer.
        entry.wrong, entry.fault, entry.finish_reason = answer.wrong, said.fault, said.finish_reason
        entry.prompt_tokens, entry.completion_tokens = asked.prompt_tokens, tokens_of(said.content)
        await _wait(pause)
        return _respond_json(200, _completion(asked, said, entry), entry.request_id)

    def _refuse(self, status: int, entry: Entry) -> web.Response:
        if status == 429:
            error = WireError(
                429, "Too many requests; try again later.", "rate_limit_error", code="rate_limit_exceeded"
            )
            return _respond_json(
                429, error.body, entry.request_id, {"Retry-After": str(self._config.retry_after)}
            )
        error = WireError(status, "The vendor had an error of its own.", "server_error")
        return _respond_json(status, error.body, entry.request_id)

    def _authorise(self, request: web.Request) -> None:
        expected = self._config.api_key
        given = request.headers.get("Authorization", "")
        if expected is not None and not hmac.compare_digest(
            given.encode("utf-8", "replace"), f"Bearer {expected}".encode()
        ):
            raise WireError(401, "The API key is missing or wrong.", code="invalid_api_key")


def _completion(asked: ChatRequest, said: Said, entry: Entry) -> JsonObject:
    return reply(
        request_id=entry.request_id,
        created=int(time.time()),
        model=asked.model,
        content=said.content,
        finish_reason=said.finish_reason,
        usage=(entry.prompt_tokens, entry.completion_tokens),
    )


def _within_limit(said: Said, limit: int | None) -> Said:
    if limit is None or tokens_of(said.content) <= limit:
        return said
    return Said(cut_to_tokens(said.content, limit), "length", said.fault)


async def _wait(seconds: float) -> None:
    if seconds > 0:
        await asyncio.sleep(seconds)


def _respond_json(
    status: int, body: JsonObject, request_id: str | None = None, headers: dict[str, str] | None = None
) -> web.Response:
    named = {**(headers or {}), **({} if request_id is None else {"x-request-id": request_id})}
    return web.Response(
        status=status, body=json.dumps(body).encode(), headers=named, content_type="application/json"
    )
