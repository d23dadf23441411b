"""One unbilled request to a vendor: the list of its models. Nothing of a record is in it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import aiohttp
from yarl import URL

_SECONDS: Final = aiohttp.ClientTimeout(total=15, connect=10)
_MOST_BYTES: Final = 4 * 2**20
_ANTHROPIC_VERSION: Final = "2023-06-01"


@dataclass(frozen=True, slots=True)
class Probe:
    """What came of it: a status, or why there was none. `models` are the names that the vendor lists."""

    url: URL
    seconds: float = 0.0
    status: int | None = None
    failure: str | None = None
    models: frozenset[str] = frozenset()


async def probe(kind: str, base_url: str, environment: Mapping[str, str]) -> Probe:
    """Ask `kind` (openai or anthropic) at its base URL which models it has."""
    url = _models_url(kind, base_url)
    started = time.monotonic()
    try:
        async with (
            aiohttp.ClientSession(timeout=_SECONDS) as session,
            session.get(url, headers=_headers(kind, url, environment), allow_redirects=False) as reply,
        ):
            body = await reply.content.read(_MOST_BYTES)
            return Probe(url, time.monotonic() - started, reply.status, models=_names(body))
    except (aiohttp.ClientError, TimeoutError) as error:
        return Probe(url, time.monotonic() - started, failure=_reason(error))


def _models_url(kind: str, base_url: str) -> URL:
    base = URL(base_url)
    path = base.raw_path.rstrip("/")
    if kind == "anthropic" and not path.endswith("/v1"):
        path += "/v1"
    return base.with_path(f"{path}/models", encoded=True).with_query(base.query)


def _headers(kind: str, url: URL, environment: Mapping[str, str]) -> dict[str, str]:
    """A vendor's own key goes to that vendor alone, ASSAY_MODEL_API_KEY to whatever server is named."""
    host = url.host or ""
    key = environment.get("ASSAY_MODEL_API_KEY")
    if kind == "anthropic":
        if not key and (host == "anthropic.com" or host.endswith(".anthropic.com")):
            key = environment.get("ANTHROPIC_API_KEY")
        return {"anthropic-version": _ANTHROPIC_VERSION, **({"x-api-key": key} if key else {})}
    if not key and (host == "openai.com" or host.endswith(".openai.com")):
        key = environment.get("OPENAI_API_KEY")
    return {"Authorization": f"Bearer {key}"} if key else {}


def _names(body: bytes) -> frozenset[str]:
    """Names in `{"data": [{"id": ...}]}`; none where the reply is something else."""
    try:
        read = json.loads(body)
    except ValueError:
        return frozenset()
    rows = read.get("data") if isinstance(read, dict) else None
    named = [row.get("id") for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return frozenset(name for name in named if isinstance(name, str))


def _reason(error: aiohttp.ClientError | TimeoutError) -> str:
    """In our words, by type: the library's text may hold the whole request."""
    match error:
        case aiohttp.ClientConnectorDNSError():
            return "its name is not known to DNS"
        case aiohttp.ClientConnectorCertificateError():
            return "its TLS certificate is not trusted"
        case aiohttp.ClientSSLError():
            return "no TLS there"
        case aiohttp.ClientConnectorError():
            return "no connection"
        case TimeoutError():
            return "no answer in time"
        case _:
            return f"no HTTP there ({type(error).__name__})"
