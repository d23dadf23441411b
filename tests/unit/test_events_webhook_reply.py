"""What an endpoint's reply says: about the event, about the endpoint, about when."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from multidict import CIMultiDict

from assay.adapters.sinks.webhook_reply import MAX_WAIT_SECONDS, Verdict, verdict_of, wait_of

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = "Thu, 01 Jan 2026 12:00:30 GMT"


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after": " 7 "}, 7.0),
        ({"Retry-After": "0"}, 0.0),
        ({"Retry-After": "9" * 400}, MAX_WAIT_SECONDS),
        ({"Retry-After": "-7"}, None),
        ({"Retry-After": "٧"}, None),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": ""}, None),
        ({"Retry-After": LATER}, 30.0),
        ({"Retry-After": LATER, "Date": "Thu, 01 Jan 2026 12:00:20 GMT"}, 10.0),
        ({"Retry-After": LATER, "Date": "whenever"}, 30.0),
        ({"Retry-After": "Thu, 01 Jan 2026 11:00:00 GMT"}, 0.0),
        ({"Retry-After": "Fri, 31 Dec 9999 23:59:59 GMT"}, MAX_WAIT_SECONDS),
    ],
)
def test_retry_after_is_seconds_or_a_date(given: dict[str, str], seconds: float | None) -> None:
    assert wait_of(CIMultiDict(given), NOW) == seconds


def test_every_status_has_its_verdict() -> None:
    found: dict[Verdict, set[int]] = {verdict: set() for verdict in Verdict}
    for status in range(100, 600):
        found[verdict_of(status)].add(status)
    assert found[Verdict.DELIVERED] == set(range(200, 300))
    assert found[Verdict.RETRY] == {408, 425, *range(500, 600)} - {503}
    assert found[Verdict.CLOSED] >= {*range(300, 400), 401, 403, 404, 429, 503}
    assert found[Verdict.POISON] >= {400, 409, 411, 413, 414, 422, 431}
    assert found[Verdict.POISON] <= set(range(400, 500))
