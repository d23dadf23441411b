"""Signatures of webhooks: HMAC-SHA256 over id, time and body, in the headers of Standard Webhooks.

`webhook-id` is the event's id, `webhook-timestamp` the second of sending, `webhook-signature` one
`v1,<base64>` per secret in use, with spaces between them. Signed is `<id>.<timestamp>.<body>`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import Final

ID: Final = "webhook-id"
TIMESTAMP: Final = "webhook-timestamp"
SIGNATURE: Final = "webhook-signature"
TOLERANCE_SECONDS: Final = 300
_PREFIX: Final = "whsec_"
_LEAST, _MOST = 24, 64


class BadSignature(ValueError):
    """A request that is not to be believed. The sentence says why and holds nothing of the request."""


def secrets_of(text: str) -> tuple[bytes, ...]:
    """The secrets in a setting: one, or two with a comma between them while they are exchanged.

    Each is 24 to 64 bytes in base64, with or without `whsec_` before it. Raises `ValueError` with a sentence
    that does not hold them.
    """
    found = []
    for each in text.split(","):
        try:
            secret = base64.b64decode(each.strip().removeprefix(_PREFIX), validate=True)
        except (binascii.Error, ValueError):
            raise ValueError(
                "A webhook secret is no base64; make one with: openssl rand -base64 32."
            ) from None
        if not _LEAST <= len(secret) <= _MOST:
            raise ValueError("A webhook secret has 24 to 64 bytes; make one with: openssl rand -base64 32.")
        found.append(secret)
    if len(found) > 2:
        raise ValueError("There are at most two webhook secrets: the new one and the one it replaces.")
    return tuple(found)


def sign(message_id: str, timestamp: int, body: bytes, secrets: Sequence[bytes]) -> dict[str, str]:
    """The three headers of a request, signed with every secret."""
    signatures = " ".join(_signature(message_id, str(timestamp), body, secret) for secret in secrets)
    return {ID: message_id, TIMESTAMP: str(timestamp), SIGNATURE: signatures}


def verify(
    body: bytes,
    headers: Mapping[str, str],
    secrets: Sequence[bytes],
    now: float,
    tolerance_seconds: float = TOLERANCE_SECONDS,
) -> str:
    """The id of a request that is signed with one of the secrets and was sent around `now` (Unix time).

    `body` are the bytes as they came. A request that is sent again has the same id. Raises `BadSignature`.
    """
    given = {name.lower(): value for name, value in headers.items()}
    message_id, timestamp, signatures = (given.get(name) for name in (ID, TIMESTAMP, SIGNATURE))
    if not message_id or not timestamp or not signatures:
        raise BadSignature(f"The request lacks {ID}, {TIMESTAMP} or {SIGNATURE}.")
    if not timestamp.isascii() or not timestamp.isdecimal() or len(timestamp) > 12:
        raise BadSignature(f"{TIMESTAMP} is no number of seconds.")
    if abs(now - int(timestamp)) > tolerance_seconds:
        raise BadSignature("The request was sent too long ago, or the clocks differ.")
    expected = [_signature(message_id, timestamp, body, secret).encode() for secret in secrets]
    offered = [each.encode() for each in signatures.split(" ")]
    if not any(hmac.compare_digest(left, right) for left in expected for right in offered):
        raise BadSignature("No signature fits the request.")
    return message_id


def _signature(message_id: str, timestamp: str, body: bytes, secret: bytes) -> str:
    signed = b".".join((message_id.encode(), timestamp.encode(), body))
    return "v1," + base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()
