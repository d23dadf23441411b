"""What the vendor refuses: its own settings, and requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from assay.vendor.chance import Draws


class VendorSettingsError(ValueError):
    """A setting or the gold file does not fit. One clear sentence that says what to do."""


class WireError(Exception):
    """A call that gets an error reply.

    `status`, `kind` (the type), `code` and `param` are those of OpenAI's errors; a wire with other words
    finds its own by the status, or by `other_status` where the vendors differ in it. `retry` says that the
    reply states when to try again: None for no, 0 for the setting's own time, else seconds.
    """

    def __init__(
        self,
        status: int,
        message: str,
        kind: str = "invalid_request_error",
        *,
        code: str | None = None,
        param: str | None = None,
        other_status: int | None = None,
        retry: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind
        self.code = code
        self.param = param
        self.other_status = status if other_status is None else other_status
        self.retry = retry


SERVER_ERRORS: Final = (500, 502, 503)


@dataclass(frozen=True, slots=True)
class _Refusal:
    status: int
    message: str
    kind: str
    code: str | None
    other_status: int | None = None
    retry: float | None = None


_REFUSALS: Final = {
    "rate_limited": _Refusal(
        429, "Too many requests; try again later.", "rate_limit_error", "rate_limit_exceeded", retry=0
    ),
    "overloaded": _Refusal(
        503, "The vendor is overloaded.", "service_unavailable_error", "server_is_overloaded", 529, 0
    ),
    "timeout": _Refusal(408, "The request took too long.", "server_error", "request_timeout"),
    "unauthorised": _Refusal(
        401, "The API key is missing or wrong.", "invalid_request_error", "invalid_api_key"
    ),
    "forbidden": _Refusal(403, "The key may not do this.", "permission_error", "access_denied"),
    "quota": _Refusal(429, "The account has no quota left.", "insufficient_quota", "insufficient_quota", 402),
}


def refusal(fault: str, draws: Draws | None = None) -> WireError:
    """The error reply of a fault by its name; `draws` choose the status of a server error."""
    if draws is not None and fault == "server_error":
        return WireError(draws.one_of(SERVER_ERRORS), "The vendor had an error of its own.", "server_error")
    one = _REFUSALS[fault]
    return WireError(
        one.status,
        one.message,
        one.kind,
        code=one.code,
        other_status=one.other_status,
        retry=one.retry,
    )
