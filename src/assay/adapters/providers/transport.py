"""HTTP for model calls: bytes in, bytes out, on aiohttp.

No retries, no redirects, no cookies: what to do after a failure is decided elsewhere, from typed errors.
A failed exchange keeps the vendor's request id and the bytes that did arrive.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import aiohttp
from yarl import URL

from assay.adapters.providers.loopback import is_loopback, only_loopback
from assay.adapters.providers.rate_limit_headers import read_rate_limits
from assay.domain.failures import (
    ConfigurationProviderError,
    ProviderError,
    RequestProviderError,
    TransientProviderError,
)

MAX_RESPONSE_BYTES: Final = 64 * 1024 * 1024
MAX_PARTIAL_BYTES: Final = 64 * 1024
MAX_REQUEST_ID_CHARS: Final = 256

# Servers close idle connections after 5 s (uvicorn's default) or later. A POST on a connection that the
# server is just closing is a lost call that must be assumed paid: leave the connection first.
_KEEPALIVE_SECONDS: Final = 4.0

_REQUEST_ID_HEADERS: Final = (
    "x-request-id",
    "request-id",
    "apim-request-id",
    "x-ms-request-id",
    "x-amzn-requestid",
)


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds: for the whole exchange, for making a connection, and for any one silence of the server.

    Without streaming a model is silent until its answer is complete, so `read` bounds the generation.
    """

    total: float = 60.0
    connect: float = 10.0
    read: float = 60.0


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A reply: `headers` are case-insensitive. `body` of an error status may be incomplete."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    latency_ms: float
    request_id: str | None


@dataclass(slots=True)
class _Exchange:
    """What is known of one exchange so far; outlives its failure."""

    started: float
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    request_id: str | None = None
    received: bytearray = field(default_factory=bytearray)

    def reply(self, status: int) -> HttpReply:
        latency_ms = (time.perf_counter() - self.started) * 1000.0
        return HttpReply(status, self.headers, bytes(self.received), latency_ms, self.request_id)

    @property
    def partial(self) -> bytes:
        return bytes(self.received[:MAX_PARTIAL_BYTES])


class HttpTransport:
    """One connection pool. The session is made inside the running loop at the first call.

    `connection_limit` 0 means none: the worker bounds what is in flight, and waiting here for a free
    connection would use up the deadline. Proxies are read from the environment only with `trust_env`.
    """

    def __init__(
        self,
        deadlines: Deadlines | None = None,
        *,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        connection_limit: int = 0,
        trust_env: bool = False,
    ) -> None:
        self._deadlines = deadlines or Deadlines()
        self._max_response_bytes = max_response_bytes
        self._connection_limit = connection_limit
        self._trust_env = trust_env
        self._session: aiohttp.ClientSession | None = None

    async def post(self, url: URL, headers: Mapping[str, str], body: bytes) -> HttpReply:
        """Send one POST and read its whole reply, whatever the status.

        Raises `TransientProviderError` (`provider_timeout`, `provider_connection`, `provider_bad_reply` for
        what is not HTTP or is over the size bound), `ConfigurationProviderError`
        (`provider_settings_rejected`) when the loopback guard refuses the host, `RequestProviderError` for
        a request that cannot be written. Cancellation propagates and closes the connection.
        """
        if only_loopback() and (self._trust_env or not is_loopback(url)):
            raise ConfigurationProviderError("provider_settings_rejected", billed=False)
        exchange = _Exchange(time.perf_counter())
        try:
            return await self._exchange(exchange, url, headers, body)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            # An error status is an answer already: its class does not depend on the rest of the body.
            if exchange.status is not None and exchange.status >= 300:
                return exchange.reply(exchange.status)
            failure = _failure(error, exchange)
        # Raised outside the handler: aiohttp's errors hold the request's headers, key included, and must
        # not travel along as `__context__`.
        raise failure

    async def aclose(self) -> None:
        """Close all connections. May be called twice."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _exchange(
        self, exchange: _Exchange, url: URL, headers: Mapping[str, str], body: bytes
    ) -> HttpReply:
        response = await self._open().post(url, data=body, headers=headers, allow_redirects=False)
        try:
            exchange.status = response.status
            exchange.headers = response.headers
            exchange.request_id = request_id_of(response.headers)
            while chunk := await response.content.readany():
                exchange.received += chunk
                if len(exchange.received) > self._max_response_bytes:
                    raise _TooLargeError
        except BaseException:
            response.close()
            raise
        response.release()
        return exchange.reply(response.status)

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None or self._session.closed:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=self._connection_limit, keepalive_timeout=_KEEPALIVE_SECONDS
                ),
                timeout=aiohttp.ClientTimeout(
                    total=self._deadlines.total,
                    sock_connect=self._deadlines.connect,
                    sock_read=self._deadlines.read,
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": "assay"},
                trust_env=self._trust_env,
            )
        return self._session


class _TooLargeError(aiohttp.ClientError):
    """The reply is over the size bound."""


def request_id_of(headers: Mapping[str, str]) -> str | None:
    """The vendor's id of the exchange, from whichever header holds it."""
    for name in _REQUEST_ID_HEADERS:
        value = headers.get(name)
        if value and len(value) <= MAX_REQUEST_ID_CHARS and value.isprintable():
            return value
    return None


def _failure(error: Exception, exchange: _Exchange) -> ProviderError:
    """The typed error for an exchange that brought no usable status."""
    # A connection that was never made cannot have cost anything.
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return TransientProviderError("provider_connection", billed=False)
    if isinstance(error, TimeoutError):
        code = "provider_timeout"
    elif isinstance(error, aiohttp.ClientResponseError | _TooLargeError):
        code = "provider_bad_reply"
    elif isinstance(error, ValueError) and not isinstance(error, aiohttp.ClientError):
        return RequestProviderError("provider_request_rejected", billed=False)
    else:
        code = "provider_connection"
    return TransientProviderError(
        code,
        status=exchange.status,
        request_id=exchange.request_id,
        partial=exchange.partial,
        rate_limits=read_rate_limits(exchange.headers, datetime.now(UTC)),
    )
