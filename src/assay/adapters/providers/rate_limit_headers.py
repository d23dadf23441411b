"""Reads what a vendor says about its limits in the headers of a reply. Pure: the clock is passed in.

Two families: `x-ratelimit-{limit,remaining,reset}-{requests,tokens}` (OpenAI, Azure and many gateways; resets
as durations such as `6m0s`) and `anthropic-ratelimit-{requests,tokens,input-tokens,output-tokens}-
{limit,remaining,reset}` (resets as moments, RFC 3339).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from assay.adapters.providers.retry_after import reply_date
from assay.domain.rate_limits import Allowance, RateLimits

MAX_RESET_SECONDS: Final = 24 * 3600.0
_MAX_COUNT: Final = 2**53

_COUNT: Final = re.compile(r"[0-9]{1,16}", re.ASCII)
_NUMBER: Final = r"[0-9]{1,12}(?:\.[0-9]{0,9})?"
_PART: Final = re.compile(rf"({_NUMBER})(ms|us|µs|ns|d|h|m|s)", re.ASCII)
_DURATION: Final = re.compile(rf"(?:{_NUMBER}(?:ms|us|µs|ns|d|h|m|s))+", re.ASCII)
_SECONDS: Final = re.compile(_NUMBER, re.ASCII)
_UNITS: Final = {
    "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0
}  # fmt: skip


def read_rate_limits(headers: Mapping[str, str], now: datetime | None = None) -> RateLimits | None:
    """The limits that a reply states, None where it states none.

    A moment is compared with the reply's own `Date`, else with `now`, else left out. Keys are looked up in
    lower case: pass a case-insensitive mapping or lower-case keys.
    """
    limits = RateLimits(
        requests=_plain(headers, "requests") or _named(headers, "requests", now),
        tokens=_plain(headers, "tokens") or _named(headers, "tokens", now),
        input_tokens=_named(headers, "input-tokens", now),
        output_tokens=_named(headers, "output-tokens", now),
    )
    return None if limits == _NOTHING else limits


_NOTHING: Final = RateLimits()


def _plain(headers: Mapping[str, str], what: str) -> Allowance | None:
    return _allowance(
        _count(headers.get(f"x-ratelimit-limit-{what}")),
        _count(headers.get(f"x-ratelimit-remaining-{what}")),
        duration_seconds(headers.get(f"x-ratelimit-reset-{what}")),
    )


def _named(headers: Mapping[str, str], what: str, now: datetime | None) -> Allowance | None:
    return _allowance(
        _count(headers.get(f"anthropic-ratelimit-{what}-limit")),
        _count(headers.get(f"anthropic-ratelimit-{what}-remaining")),
        _until(headers.get(f"anthropic-ratelimit-{what}-reset"), headers, now),
    )


def _allowance(limit: int | None, remaining: int | None, reset: float | None) -> Allowance | None:
    if limit is None and remaining is None and reset is None:
        return None
    return Allowance(limit, remaining, reset)


def duration_seconds(value: str | None) -> float | None:
    """`6m0s`, `12ms`, `1h2m3.5s` or plain seconds, in [0, 86400]; None for anything else."""
    if value is None:
        return None
    text = value.strip()
    if _SECONDS.fullmatch(text):
        return _clamp(float(text))
    if not _DURATION.fullmatch(text):
        return None
    return _clamp(math.fsum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text)))


def _until(value: str | None, headers: Mapping[str, str], now: datetime | None) -> float | None:
    if value is None:
        return None
    moment = reply_date(headers) or now
    if moment is None:
        return None
    try:
        reset = datetime.fromisoformat(value.strip())
    except ValueError:
        return None
    reset = reset if reset.tzinfo is not None else reset.replace(tzinfo=UTC)
    return _clamp((reset - moment).total_seconds())


def _clamp(seconds: float) -> float:
    return min(max(seconds, 0.0), MAX_RESET_SECONDS)


def _count(value: str | None) -> int | None:
    text = "" if value is None else value.strip()
    return min(int(text), _MAX_COUNT) if _COUNT.fullmatch(text) else None
