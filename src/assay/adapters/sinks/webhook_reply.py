"""What an endpoint's status says about the event and about the endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum, auto
from typing import Final

MAX_WAIT_SECONDS: Final = 3600.0

# About the address, the credentials or the form that all requests have: every event would be refused alike.
_DOOR: Final = frozenset({401, 402, 403, 404, 405, 406, 407, 410, 415, 421, 426, 451})
_LATER: Final = frozenset({408, 425})
_NOT_NOW: Final = frozenset({429, 503})


class Verdict(Enum):
    """What follows from a reply."""

    DELIVERED = auto()
    POISON = auto()  # this event, and the same again does not help
    RETRY = auto()  # this event, later
    CLOSED = auto()  # nothing gets through for now


def verdict_of(status: int) -> Verdict:
    """What follows from a status: 2xx is delivered; a redirect is never followed."""
    if 200 <= status < 300:
        return Verdict.DELIVERED
    if status in _DOOR or status in _NOT_NOW or status < 400:
        return Verdict.CLOSED
    if status in _LATER or status >= 500:
        return Verdict.RETRY
    return Verdict.POISON


def wait_of(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds that `Retry-After` asks for (a number or an HTTP date), 0 to an hour; None where it does not.

    A date is compared with the reply's own `Date` where it has one: clocks differ.
    """
    given = headers.get("Retry-After", "").strip()
    if given.isascii() and given.isdecimal():
        return min(float(given[:9]), MAX_WAIT_SECONDS)
    until = _date(given)
    if until is None:
        return None
    seconds = (until - (_date(headers.get("Date", "")) or now)).total_seconds()
    return min(max(seconds, 0.0), MAX_WAIT_SECONDS)


def _date(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError, IndexError, TypeError):
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
