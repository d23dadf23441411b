"""The fault matrix: each scenario and the typed error that must come of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from assay.domain.failures import (
    ConfigurationProviderError,
    PolicyProviderError,
    ProviderError,
    RequestProviderError,
    TransientProviderError,
)
from providers_fault_server import (
    MEBIBYTE,
    Scenario,
    always,
    choice,
    completion,
    drip,
    endless,
    http,
    reset,
    then_close,
    then_stall,
    zipped,
)


def error(
    code: str | int | None = None, type_: str | None = None, param: str | None = None
) -> dict[str, object]:
    return {"error": {"message": "the words of a person", "code": code, "type": type_, "param": param}}


@dataclass(frozen=True)
class Case:
    """A scenario and what must come of it."""

    name: str
    scenario: Scenario = field(repr=False)
    kind: type[ProviderError]
    code: str
    status: int | None = 200
    billed: bool = True
    counts: bool = True
    retry_after: float | None = None
    request_id: str | None = "req-7"
    partial: bytes | None = None


def limited(name: str, retry_after: float | None, **headers: str) -> Case:
    scenario = always(http(429, error("rate_limit_exceeded"), **headers))
    return Case(
        name, scenario, TransientProviderError, "provider_rate_limited", 429, False, False, retry_after
    )


def transient(name: str, code: str, status: int, reply: bytes, **more: object) -> Case:
    values: dict[str, object] = {"billed": True, "counts": True, "retry_after": None, **more}
    return Case(
        name,
        always(reply),
        TransientProviderError,
        code,
        status,
        bool(values["billed"]),
        bool(values["counts"]),
        3.0 if values["retry_after"] else None,
    )


def refused(kind: type[ProviderError], name: str, code: str, status: int, body: dict[str, object]) -> Case:
    return Case(name, always(http(status, body)), kind, code, status, billed=False, counts=False)


def bad_reply(name: str, body: bytes | str | dict[str, object], **headers: str) -> Case:
    return Case(name, always(http(200, body, **headers)), TransientProviderError, "provider_bad_reply")


NOON = "Mon, 30 Nov 2026 12:00:00 GMT"
HEAD = http(200, b"x" * 500).split(b"\r\n\r\n", 1)[0] + b"\r\n\r\n"

RATE_LIMITS = [
    limited("429-seconds", 7.0, Retry_After="7"),
    limited("429-fraction", 1.5, Retry_After="1.5"),
    limited("429-date-by-the-replys-clock", 90.0, Retry_After="Mon, 30 Nov 2026 12:01:30 GMT", Date=NOON),
    limited("429-date-past", 0.0, Retry_After="Mon, 30 Nov 2026 11:00:00 GMT", Date=NOON),
    limited("429-date-far", 3600.0, Retry_After="Fri, 30 Nov 2099 11:00:00 GMT", Date=NOON),
    limited("429-absent", None),
    limited("429-garbage", None, Retry_After="soon"),
    limited("429-nan", None, Retry_After="nan"),
    limited("429-huge", 3600.0, Retry_After="9" * 400),
    limited("429-negative", 0.0, Retry_After="-5"),
    limited("429-milliseconds", 0.25, Retry_After="9", Retry_After_Ms="250"),
    Case(
        "429-html",
        always(http(429, "<html>slow down</html>", Content_Type="text/html")),
        TransientProviderError,
        "provider_rate_limited",
        429,
        False,
        False,
    ),
]
STATUSES = [
    transient("408", "provider_timeout", 408, http(408, b"")),
    transient("409", "provider_overloaded", 409, http(409, error()), billed=False),
    transient("425", "provider_overloaded", 425, http(425, error()), billed=False),
    transient("500", "provider_server_error", 500, http(500, error("server_error")), billed=False),
    transient("502-html", "provider_server_error", 502, http(502, "<html>bad gateway</html>")),
    transient(
        "503", "provider_overloaded", 503, http(503, error(), Retry_After="3"), billed=False, retry_after=True
    ),
    transient("504", "provider_timeout", 504, http(504, error())),
    transient("529", "provider_overloaded", 529, http(529, error("overloaded_error")), billed=False),
    refused(ConfigurationProviderError, "401", "provider_auth", 401, error("invalid_api_key")),
    refused(ConfigurationProviderError, "402", "provider_quota", 402, error()),
    refused(ConfigurationProviderError, "403", "provider_auth", 403, error()),
    refused(ConfigurationProviderError, "404", "provider_model_unknown", 404, error("model_not_found")),
    refused(ConfigurationProviderError, "400-model", "provider_model_unknown", 400, error("model_not_found")),
    refused(ConfigurationProviderError, "429-quota", "provider_quota", 429, error("insufficient_quota")),
    refused(
        ConfigurationProviderError, "429-quota-type", "provider_quota", 429, error(None, "insufficient_quota")
    ),
    refused(
        ConfigurationProviderError,
        "400-schema",
        "provider_settings_rejected",
        400,
        error(None, "invalid_request_error", "response_format"),
    ),
    refused(
        ConfigurationProviderError,
        "400-temperature",
        "provider_settings_rejected",
        400,
        error("unsupported_value", "invalid_request_error", "temperature"),
    ),
    refused(RequestProviderError, "400", "provider_request_rejected", 400, error()),
    refused(
        RequestProviderError,
        "400-too-long",
        "provider_request_rejected",
        400,
        error("context_length_exceeded", "invalid_request_error", "messages"),
    ),
    refused(RequestProviderError, "413", "provider_request_rejected", 413, error()),
    refused(RequestProviderError, "422", "provider_request_rejected", 422, {"detail": [{"loc": ["body"]}]}),
    refused(PolicyProviderError, "400-filter", "provider_refused", 400, error("content_filter")),
    refused(PolicyProviderError, "400-policy", "provider_refused", 400, error("content_policy_violation")),
    refused(ConfigurationProviderError, "405", "provider_settings_rejected", 405, error()),
    Case(
        "401-dropped-body",
        then_close(http(401, error()).replace(b"Content-Length: ", b"Content-Length: 9")),
        ConfigurationProviderError,
        "provider_auth",
        401,
        billed=False,
        counts=False,
    ),
]
WIRE = [
    Case(
        "stall-before-headers",
        then_stall(b""),
        TransientProviderError,
        "provider_timeout",
        None,
        request_id=None,
    ),
    Case(
        "stall-in-body",
        then_stall(HEAD + b'{"choices"'),
        TransientProviderError,
        "provider_timeout",
        partial=b'{"choices"',
    ),
    Case("drip", drip, TransientProviderError, "provider_timeout"),
    Case(
        "drop-mid-body",
        then_close(HEAD + b'{"choices"'),
        TransientProviderError,
        "provider_connection",
        counts=False,
        partial=b'{"choices"',
    ),
    Case(
        "drop-before-headers",
        then_close(b""),
        TransientProviderError,
        "provider_connection",
        None,
        counts=False,
        request_id=None,
    ),
    Case("reset", reset, TransientProviderError, "provider_connection", None, counts=False, request_id=None),
    Case(
        "not-http",
        then_close(b"220 mail.example ESMTP\r\n\r\n"),
        TransientProviderError,
        "provider_bad_reply",
        None,
        request_id=None,
    ),
    Case(
        "html-200",
        always(http(200, "<html>hello</html>", Content_Type="text/html")),
        TransientProviderError,
        "provider_bad_reply",
        partial=b"<html>hello</html>",
    ),
    Case("endless", endless, TransientProviderError, "provider_bad_reply"),
    Case("zip-bomb", always(zipped(b" " * 100 * MEBIBYTE)), TransientProviderError, "provider_bad_reply"),
]
ENVELOPES = [
    bad_reply("empty", b""),
    bad_reply("truncated-json", b'{"choices": [{"message": {"content": "{}'),
    bad_reply("not-utf8", b'{"choices": "\xff"}'),
    bad_reply("deep", b"[" * 200_000),
    bad_reply("event-stream", 'data: {"id": 1}\n\n', Content_Type="text/event-stream"),
    bad_reply("null", b"null"),
    bad_reply("no-choices", {"id": "x"}),
    bad_reply("empty-choices", completion(choices=[])),
    bad_reply("choices-null", completion(choices=None)),
    bad_reply("choice-text", completion(choices=["x"])),
    bad_reply("no-message", completion(choices=[{"finish_reason": "stop"}])),
    bad_reply("content-number", completion(choices=choice(content=7))),
    bad_reply("image-part", completion(choices=choice(content=[{"type": "image_url", "text": "x"}]))),
    bad_reply("error-200", {"error": {"message": "x", "code": "odd"}}),
    Case(
        "refusal",
        always(http(200, completion(choices=choice(content=None, refusal="I cannot.")))),
        PolicyProviderError,
        "provider_refused",
        counts=False,
    ),
    Case(
        "refusal-part",
        always(http(200, completion(choices=choice(content=[{"type": "refusal", "refusal": "No"}])))),
        PolicyProviderError,
        "provider_refused",
        counts=False,
    ),
    Case(
        "content-filter",
        always(http(200, completion(choices=choice("content_filter", content="")))),
        PolicyProviderError,
        "provider_refused",
        counts=False,
    ),
    Case(
        "broken-off",
        always(http(200, completion(choices=choice("error", content="{")))),
        TransientProviderError,
        "provider_server_error",
    ),
    Case(
        "error-429-in-200",
        always(http(200, error(429), Retry_After="2")),
        TransientProviderError,
        "provider_rate_limited",
        200,
        False,
        False,
        2.0,
    ),
    Case(
        "error-401-in-200",
        always(http(200, error(401))),
        ConfigurationProviderError,
        "provider_auth",
        200,
        False,
        False,
    ),
]
CASES = [*RATE_LIMITS, *STATUSES, *WIRE, *ENVELOPES]
