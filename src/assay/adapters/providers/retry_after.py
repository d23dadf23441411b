"""Reads how long a provider asks us to wait. Pure: the clock is passed in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

MAX_RETRY_AFTER_SECONDS: Final = 3600.0

_NUMBER: Final = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?", re.ASCII)


def retry_after_seconds(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds to wait, in [0, 3600]; None where the provider said nothing that can be read.

    `retry-after-ms` (milliseconds) is finer and goes first. `Retry-After` holds seconds or an HTTP date
    (RFC 9110, 10.2.3). A date is compared with the reply's own `Date`, which cancels the difference
    between the provider's clock and ours; without one with `now`. Keys are looked up in lower case:
    pass a case-insensitive mapping or lower-case keys.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return _clamp(milliseconds / 1000.0)
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is not None:
        return _clamp(seconds)
    until = _date(value)
    if until is None:
        return None
    return _clamp((until - (reply_date(headers) or now)).total_seconds())


def reply_date(headers: Mapping[str, str]) -> datetime | None:
    """The moment at which the vendor says it answered (`Date`), None where it does not say."""
    return _date(headers.get("date"))


def _clamp(seconds: float) -> float:
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_SECONDS)


def _number(value: str | None) -> float | None:
    if value is None or _NUMBER.fullmatch(value.strip()) is None:
        return None
    return float(value)


def _date(value: str | None) -> datetime | None:
    if value is None:
        return None
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, OverflowError, IndexError, TypeError):
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
