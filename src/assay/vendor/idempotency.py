"""Replies remembered by Idempotency-Key, for a vendor that honours it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Final

from assay.vendor.errors import WireError

REMEMBERED: Final = 100_000


@dataclass(frozen=True, slots=True)
class FirstReply:
    """The reply to the first call with a key: the same bytes for each later one, once it is `ready_at`."""

    request_sha256: bytes
    ready_at: float
    model: str
    request_id: str
    content_type: str
    body: bytes = field(repr=False)


class FirstReplies:
    """Replies by account and key. A hundred thousand at least are remembered, twice that at most."""

    def __init__(self) -> None:
        self._new: dict[tuple[str, str, str], FirstReply] = {}
        self._old: dict[tuple[str, str, str], FirstReply] = {}

    def find(self, address: tuple[str, str, str], request: bytes) -> FirstReply | None:
        """The first reply to (wire, account, key); raises WireError (400) if it was to another request."""
        found = self._new.get(address) or self._old.get(address)
        if found is not None and found.request_sha256 != fingerprint(request):
            raise WireError(
                400,
                "This Idempotency-Key came with another request before.",
                code="idempotency_key_reused",
            )
        return found

    def keep(self, address: tuple[str, str, str], reply: FirstReply) -> None:
        """Remember the first reply."""
        self._new[address] = reply
        if len(self._new) >= REMEMBERED:
            self._old, self._new = self._new, {}


def fingerprint(request: bytes) -> bytes:
    """SHA-256 of a request's body."""
    return hashlib.sha256(request).digest()
