"""THE expectations: each fault, how it is served, and what must come of it from every adapter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from provider_dialects import Body, Dialect

from assay.domain.failures import FailureClass
from providers_fault_server import (
    CONTENT,
    Scenario,
    always,
    drip,
    endless,
    http,
    reset,
    reset_after,
    then_close,
    then_stall,
)

NOON = "Mon, 30 Nov 2026 12:00:00 GMT"
PIECE = b'{"half": "an ans'
HTML = "<html>hello</html>"


@dataclass(frozen=True)
class Fails:
    """A failure. `partial` None: whatever arrived, but something; `request_id`: whether it is kept."""

    code: str
    failure_class: FailureClass
    status: int | None
    billed: bool
    counts_attempt: bool
    request_id: bool = True
    partial: bytes | None = None
    retry_after: float | None = None
    spent: bool = False


@dataclass(frozen=True)
class Answers:
    """An answer for the boundary to judge."""

    content: str
    truncated: bool = False
    usage: bool = True
    model: str = "small-model-2026-01-01"


@dataclass(frozen=True)
class Cell:
    """One row of the matrix. `waits`: what ends it is the deadline."""

    name: str
    scenario: Callable[[Dialect], Scenario]
    expected: Fails | Answers
    waits: bool = False


TRANSIENT, CONFIGURATION = FailureClass.TRANSIENT, FailureClass.CONFIGURATION
POLICY, CONTRACT = FailureClass.POLICY, FailureClass.CONTRACT


def _reply(dialect: Dialect, status: int, body: Body | str | bytes, **headers: str) -> bytes:
    raw = http(status, body, **headers)
    return raw.replace(b"X-Request-Id", dialect.request_id_header.encode(), 1)


def _says(
    status: int, code: str = "odd", kind: str = "odd_error", **headers: str
) -> Callable[[Dialect], Scenario]:
    return lambda dialect: always(_reply(dialect, status, dialect.error(code, kind), **headers))


def _sends(
    body: Callable[[Dialect], Body | str | bytes], status: int = 200, **headers: str
) -> Callable[[Dialect], Scenario]:
    return lambda dialect: always(_reply(dialect, status, body(dialect), **headers))


def _head(dialect: Dialect) -> bytes:
    return _reply(dialect, 200, b"x" * 500).split(b"\r\n\r\n", 1)[0] + b"\r\n\r\n"


def _without_usage(dialect: Dialect) -> Body:
    return {name: value for name, value in dialect.ok().items() if name != dialect.usage_name}


def _with_more(dialect: Dialect) -> Body:
    return {**dialect.ok(), "brand_new": {"deep": [None] * 50}, "another": 1.5}


def _limited(name: str, seconds: float | None, **headers: str) -> Cell:
    expected = Fails("provider_rate_limited", TRANSIENT, 429, False, False, retry_after=seconds)
    return Cell(f"429-{name}", _says(429, "rate_limit_exceeded", "rate_limit_error", **headers), expected)


def _status(status: int, code: str, failure_class: FailureClass, billed: bool, counts: bool) -> Cell:
    return Cell(str(status), _says(status), Fails(code, failure_class, status, billed, counts))


def _answers(**differs: Any) -> Answers:
    return Answers(**{"content": CONTENT, **differs})


MATRIX = [
    Cell("ok", _sends(lambda dialect: dialect.ok()), _answers()),
    Cell("missing-usage", _sends(_without_usage), _answers(usage=False)),
    Cell("unknown-fields", _sends(_with_more), _answers()),
    Cell(
        "changed-model",
        _sends(lambda dialect: dialect.ok() | {dialect.model_name: "another-model-2"}),
        _answers(model="another-model-2"),
    ),
    Cell("truncated", _sends(lambda dialect: dialect.truncated), Answers("{", truncated=True)),
    Cell("blank", _sends(lambda dialect: dialect.blank), Answers("")),
    Cell(
        "refusal",
        _sends(lambda dialect: dialect.refusal),
        Fails("provider_refused", POLICY, 200, True, False, spent=True),
    ),
    _limited("seconds", 7.0, Retry_After="7"),
    _limited("fraction", 1.5, Retry_After="1.5"),
    _limited("milliseconds", 0.25, Retry_After="9", Retry_After_Ms="250"),
    _limited("date", 90.0, Retry_After="Mon, 30 Nov 2026 12:01:30 GMT", Date=NOON),
    _limited("date-past", 0.0, Retry_After="Mon, 30 Nov 2026 11:00:00 GMT", Date=NOON),
    _limited("date-far", 3600.0, Retry_After="Fri, 30 Nov 2099 11:00:00 GMT", Date=NOON),
    _limited("huge", 3600.0, Retry_After="9" * 400),
    _limited("negative", 0.0, Retry_After="-5"),
    _limited("nonsense", None, Retry_After="soon"),
    _limited("absent", None),
    _status(408, "provider_timeout", TRANSIENT, True, True),
    _status(409, "provider_overloaded", TRANSIENT, False, True),
    _status(500, "provider_server_error", TRANSIENT, False, True),
    _status(502, "provider_server_error", TRANSIENT, True, True),
    _status(504, "provider_timeout", TRANSIENT, True, True),
    _status(529, "provider_overloaded", TRANSIENT, False, True),
    Cell(
        "503-html",
        _sends(lambda dialect: HTML, 503, Content_Type="text/html"),
        Fails("provider_overloaded", TRANSIENT, 503, False, True, partial=HTML.encode()),
    ),
    _status(400, "provider_request_rejected", CONTRACT, False, False),
    _status(413, "provider_request_rejected", CONTRACT, False, False),
    _status(422, "provider_request_rejected", CONTRACT, False, False),
    _status(401, "provider_auth", CONFIGURATION, False, False),
    _status(402, "provider_quota", CONFIGURATION, False, False),
    _status(403, "provider_auth", CONFIGURATION, False, False),
    _status(404, "provider_model_unknown", CONFIGURATION, False, False),
    Cell(
        "redirect",
        _sends(lambda dialect: b"moved", 307, Location="http://127.0.0.1:1/elsewhere"),
        Fails("provider_settings_rejected", CONFIGURATION, 307, False, False, partial=b"moved"),
    ),
    Cell(
        "stall-before-headers",
        lambda dialect: then_stall(b""),
        Fails("provider_timeout", TRANSIENT, None, True, True, request_id=False, partial=b""),
        waits=True,
    ),
    Cell(
        "stall-in-body",
        lambda dialect: then_stall(_head(dialect) + PIECE),
        Fails("provider_timeout", TRANSIENT, 200, True, True, partial=PIECE),
        waits=True,
    ),
    Cell(
        "drip",
        lambda dialect: drip,
        Fails("provider_timeout", TRANSIENT, 200, True, True),
        waits=True,
    ),
    Cell(
        "drop-before-headers",
        lambda dialect: then_close(b""),
        Fails("provider_connection", TRANSIENT, None, True, False, request_id=False, partial=b""),
    ),
    Cell(
        "drop-in-body",
        lambda dialect: then_close(_head(dialect) + PIECE),
        Fails("provider_connection", TRANSIENT, 200, True, False, partial=PIECE),
    ),
    Cell(
        "reset",
        lambda dialect: reset,
        Fails("provider_connection", TRANSIENT, None, True, False, request_id=False, partial=b""),
    ),
    Cell(
        "reset-in-body",
        lambda dialect: reset_after(_head(dialect) + PIECE),
        Fails("provider_connection", TRANSIENT, 200, True, False, partial=PIECE),
    ),
    Cell(
        "401-body-lost",
        lambda dialect: then_close(_head(dialect).replace(b" 200 ", b" 401 ") + PIECE),
        Fails("provider_auth", CONFIGURATION, 401, False, False, partial=PIECE),
    ),
    Cell(
        "html-200",
        _sends(lambda dialect: HTML, Content_Type="text/html"),
        Fails("provider_bad_reply", TRANSIENT, 200, True, True, partial=HTML.encode()),
    ),
    Cell(
        "cut-json",
        _sends(lambda dialect: PIECE),
        Fails("provider_bad_reply", TRANSIENT, 200, True, True, partial=PIECE),
    ),
    Cell(
        "null-json",
        _sends(lambda dialect: b"null"),
        Fails("provider_bad_reply", TRANSIENT, 200, True, True, partial=b"null"),
    ),
    Cell(
        "no-answer",
        _sends(lambda dialect: dialect.empty),
        Fails("provider_bad_reply", TRANSIENT, 200, True, True, spent=True),
    ),
    Cell(
        "oversized",
        lambda dialect: endless,
        Fails("provider_bad_reply", TRANSIENT, 200, True, True),
    ),
]  # fmt: skip
