"""Database URLs as they may be shown."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

_SECRET: Final = frozenset({"password", "sslpassword"})
_MASK: Final = "***"


def masked(url: str) -> str:
    """The URL with *** for its passwords."""
    parts = urlsplit(url)
    userinfo, at, host = parts.netloc.rpartition("@")
    if ":" in userinfo:
        userinfo = f"{userinfo.partition(':')[0]}:{_MASK}"
    query = parts.query
    pairs = parse_qsl(query, keep_blank_values=True)
    if any(name in _SECRET for name, _ in pairs):
        query = urlencode([(name, _MASK if name in _SECRET else value) for name, value in pairs], safe="*/")
    # Put together by hand: urlunsplit writes an empty host as no host.
    return f"{parts.scheme}://{userinfo}{at}{host}{parts.path}" + (f"?{query}" if query else "")
