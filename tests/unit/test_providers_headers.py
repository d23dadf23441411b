"""Limits and waiting times in headers: every form that vendors use, and anything else."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.adapters.providers.rate_limit_headers import duration_seconds, read_rate_limits
from assay.domain.rate_limits import Allowance, RateLimits

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1s", 1.0), ("12ms", 0.012), ("6m0s", 360.0), ("1h2m3.5s", 3723.5), ("7.66s", 7.66), ("0s", 0.0),
     ("2m59.56s", 179.56), ("250us", 0.00025), ("1d", 86400.0), ("90d", 86400.0), ("3", 3.0), ("0.5", 0.5),
     (" 1s ", 1.0), ("", None), ("soon", None), ("-1s", None), ("1x", None), ("s", None), ("1s2", None),
     ("nan", None), ("1e9s", None), ("٣s", None), (None, None)],
)  # fmt: skip
def test_resets_are_durations(text: str | None, seconds: float | None) -> None:
    found = duration_seconds(text)
    assert found == (seconds if seconds is None else pytest.approx(seconds))


def test_each_family_is_read_and_neither_is_needed() -> None:
    assert read_rate_limits({}, NOW) is None
    assert read_rate_limits({"x-ratelimit-limit-requests": "many"}, NOW) is None
    assert read_rate_limits({"x-ratelimit-remaining-tokens": "0"}, NOW) == RateLimits(
        tokens=Allowance(remaining=0)
    )
    moments = {
        "anthropic-ratelimit-requests-reset": "2026-11-30T13:00:30+01:00",
        "anthropic-ratelimit-output-tokens-limit": "16000",
        "anthropic-ratelimit-tokens-reset": "tomorrow",
    }
    assert read_rate_limits(moments, NOW) == RateLimits(
        requests=Allowance(reset_seconds=30.0), output_tokens=Allowance(limit=16_000)
    )


def test_a_moment_is_compared_with_the_vendors_own_clock() -> None:
    headers = {
        "date": "Mon, 30 Nov 2026 11:59:00 GMT",
        "anthropic-ratelimit-requests-reset": "2026-11-30T12:00:00Z",
    }
    assert read_rate_limits(headers, NOW) == RateLimits(requests=Allowance(reset_seconds=60.0))
    del headers["date"]
    assert read_rate_limits(headers, NOW) == RateLimits(requests=Allowance(reset_seconds=0.0))
    assert read_rate_limits(headers) is None, "without any clock a moment tells nothing"


@given(st.text(max_size=30), st.text(max_size=30), st.text(max_size=40))
def test_any_header_is_a_count_a_time_or_nothing(limit: str, reset: str, moment: str) -> None:
    headers = {
        "x-ratelimit-limit-requests": limit,
        "x-ratelimit-reset-requests": reset,
        "anthropic-ratelimit-input-tokens-reset": moment,
    }
    found = read_rate_limits(headers, NOW) or RateLimits()
    for allowance in (found.requests, found.input_tokens):
        if allowance is not None and allowance.reset_seconds is not None:
            assert math.isfinite(allowance.reset_seconds)
            assert 0.0 <= allowance.reset_seconds <= 86400.0
        if allowance is not None and allowance.limit is not None:
            assert allowance.limit >= 0
