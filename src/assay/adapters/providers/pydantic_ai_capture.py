"""Captures what really goes over the wire while pydantic-ai calls a model.

pydantic-ai hands back a cleaned answer: thinking cut out of the text, no bytes, no headers. Hooks of its HTTP
client fill the `Capture` of the running call, found through a context variable. The hooks also hold what our
own transport promises: one request per call, no redirect, a bound on size, loopback alone where asked.
"""

from __future__ import annotations

import ssl
import time
import zlib
from collections.abc import AsyncIterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from typing import Final

import httpx2
from yarl import URL

from assay.adapters.providers.loopback import is_loopback, only_loopback
from assay.adapters.providers.transport import MAX_PARTIAL_BYTES, Deadlines, HttpReply, request_id_of

_GZIP_OR_ZLIB: Final = 32 + zlib.MAX_WBITS


@dataclass(slots=True)
class Capture:
    """What is known of one exchange so far; outlives its failure."""

    idempotency_key: str
    max_response_bytes: int
    started: float = field(default_factory=time.perf_counter)
    requests: int = 0
    status: int | None = None
    path: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    received: bytearray = field(default_factory=bytearray)
    whole: bool = False
    too_large: bool = False
    guarded: bool = False

    @property
    def request_id(self) -> str | None:
        return request_id_of(self.headers)

    @property
    def partial(self) -> bytes:
        return bytes(self.received[:MAX_PARTIAL_BYTES])

    @property
    def latency_ms(self) -> float:
        return (time.perf_counter() - self.started) * 1000.0

    def reply(self, status: int) -> HttpReply:
        return HttpReply(status, self.headers, bytes(self.received), self.latency_ms, self.request_id)


CURRENT: Final[ContextVar[Capture | None]] = ContextVar("assay_pydantic_ai_capture", default=None)


class _Stream(httpx2.AsyncByteStream):
    """The body of a reply, copied as it is read; unpacked here where it was packed, within the bound."""

    def __init__(
        self, inner: AsyncIterator[bytes], close: httpx2.AsyncByteStream, capture: Capture, packed: bool
    ) -> None:
        self._inner = inner
        self._close = close
        self._capture = capture
        self._unpack = zlib.decompressobj(_GZIP_OR_ZLIB) if packed else None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        capture = self._capture
        async for chunk in self._inner:
            room = capture.max_response_bytes - len(capture.received)
            data = chunk if self._unpack is None else self._unpacked(chunk, room + 1)
            capture.received += data
            if len(data) > room:
                capture.too_large = True
                raise httpx2.ReadError("The reply is over the size bound.")
            yield data
        capture.whole = True

    def _unpacked(self, chunk: bytes, most: int) -> bytes:
        assert self._unpack is not None
        try:
            return self._unpack.decompress(chunk, most)
        except zlib.error:
            raise httpx2.DecodingError("The reply does not unpack.") from None

    async def aclose(self) -> None:
        await self._close.aclose()


async def _on_request(request: httpx2.Request) -> None:
    capture = CURRENT.get()
    if capture is None:
        return
    capture.requests += 1
    if capture.requests > 1:
        # Retries are decided by the pipeline, with budget and ledger.
        raise httpx2.ConnectError("A call is sent once.")
    if only_loopback() and not is_loopback(URL(str(request.url))):
        capture.guarded = True
        raise httpx2.ConnectError("Only loopback is allowed.")
    request.headers["Idempotency-Key"] = capture.idempotency_key


async def _on_response(response: httpx2.Response) -> None:
    capture = CURRENT.get()
    if capture is None or not isinstance(response.stream, httpx2.AsyncByteStream):
        return
    capture.status = response.status_code
    capture.path = response.request.url.path
    capture.headers = httpx2.Headers(response.headers)
    packed = response.headers.get("content-encoding", "").lower() in ("gzip", "deflate")
    if packed:
        del response.headers["content-encoding"]
    response.stream = _Stream(aiter(response.stream), response.stream, capture, packed)


@cache
def _certificates() -> ssl.SSLContext:
    """The machine's certificates, read once: it takes longer than many a call."""
    return ssl.create_default_context()


def capturing_client(deadlines: Deadlines, *, trust_env: bool) -> httpx2.AsyncClient:
    """An HTTP client whose exchanges fill the current `Capture`."""
    return httpx2.AsyncClient(
        timeout=httpx2.Timeout(
            deadlines.read, connect=deadlines.connect, write=deadlines.total, pool=deadlines.total
        ),
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=1000, keepalive_expiry=4.0),
        headers={"User-Agent": "assay", "Accept-Encoding": "identity"},
        event_hooks={"request": [_on_request], "response": [_on_response]},
        follow_redirects=False,
        verify=_certificates(),
        trust_env=trust_env,
    )
