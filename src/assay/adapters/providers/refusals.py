"""From an HTTP status and the machine-readable fields of an error body to the typed error.

The text of a message is never looked at: it changes without notice and may quote the record.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from assay.adapters.providers.answers import Said, bad_reply
from assay.adapters.providers.envelope import first, parse_json, text_field
from assay.adapters.providers.rate_limit_headers import duration_seconds, read_rate_limits
from assay.adapters.providers.retry_after import MAX_RETRY_AFTER_SECONDS, retry_after_seconds
from assay.adapters.providers.transport import MAX_PARTIAL_BYTES, HttpReply
from assay.domain.failures import (
    ConfigurationProviderError,
    PolicyProviderError,
    ProviderError,
    RequestProviderError,
    TransientProviderError,
)

QUOTA_CODES: Final = frozenset(
    {
        "insufficient_quota",
        "billing_hard_limit_reached",
        "billing_not_active",
        "billing_error",
        "exceeded_current_quota_error",
    }
)
POLICY_CODES: Final = frozenset({"content_filter", "content_policy_violation", "moderation_blocked"})
MODEL_CODES: Final = frozenset({"model_not_found", "DeploymentNotFound", "not_found_error"})
AUTH_CODES: Final = frozenset(
    {"invalid_api_key", "account_deactivated", "authentication_error", "permission_error", "API_KEY_INVALID"}
)

# Statuses that error types stand for where they come inside a success (Anthropic's, after the headers left).
_TYPE_STATUS: Final = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}

# Fields of the request that belong to the version, not to the record: a refusal of one would meet every
# record alike. Token limits are not among them: they collide with the length of one record.
_RECORD_PARAMETERS: Final = frozenset(
    {"messages", "input", "max_tokens", "max_completion_tokens", "max_output_tokens"}
)

_TIMEOUTS: Final = frozenset({408, 504, 524})
_OVERLOADED: Final = frozenset({409, 425, 503, 529})
_WRONG_ADDRESS: Final = frozenset({405, 410})
# The vendor itself says that it did not do the work. A 502, a 504 or a 408 comes from somebody in between who
# cannot know.
_NOT_DONE: Final = frozenset({409, 425, 429, 500, 503, 529})


@dataclass(frozen=True, slots=True)
class ErrorFields:
    """What an error body says in fields made for machines; None where it does not."""

    code: str | None = None
    type: str | None = None
    param: str | None = None
    status: int | None = None
    request_id: str | None = None
    retry_after: float | None = None

    def names(self, codes: Collection[str]) -> bool:
        return self.code in codes or self.type in codes

    @property
    def stops_version(self) -> bool:
        """Whether the code alone says that no request of this version can work."""
        return self.names(QUOTA_CODES | AUTH_CODES | MODEL_CODES)


def error_fields(body: bytes) -> ErrorFields:
    """The fields of an error body; empty for a body that is no such thing. Never raises."""
    value = first(parse_json(body))
    if not isinstance(value, Mapping):
        return ErrorFields()
    inner = value.get("error")
    fields = fields_of(inner if isinstance(inner, Mapping) else value)
    return replace(fields, request_id=text_field(value.get("request_id")))


def fields_of(error: Mapping[str, object]) -> ErrorFields:
    """The fields of an error object as vendors write it; `status` where `code` is an HTTP status.

    Google gives reason and waiting time in `details`.
    """
    code = error.get("code")
    details = error.get("details")
    parts = [part for part in details if isinstance(part, Mapping)] if isinstance(details, list) else []
    reasons = (text_field(part.get("reason")) for part in parts)
    delays = (text_field(part.get("retryDelay")) for part in parts)
    return ErrorFields(
        code=text_field(code) or next((reason for reason in reasons if reason), None),
        type=text_field(error.get("type")),
        param=text_field(error.get("param")),
        status=code if type(code) is int and 400 <= code <= 599 else None,
        retry_after=duration_seconds(next((delay for delay in delays if delay), None)),
    )


def read_refusal(reply: HttpReply, *, settings: Collection[str], now: datetime) -> ProviderError:
    """The typed error for a reply whose status is not 2xx.

    `settings` are the names of the request's fields that come from the pipeline version (model,
    parameters, response format): a 400 that names one of them is a configuration failure.
    """
    fields = error_fields(reply.body)
    said = Said(reply_id=fields.request_id)
    return refusal(reply.status, fields, reply, said, settings=settings, now=now)


def error_in_success(
    envelope: Mapping[str, object],
    reply: HttpReply,
    said: Said,
    *,
    settings: Collection[str],
    now: datetime,
) -> ProviderError:
    """The error of a success that holds no answer: vendors and gateways that have sent their headers already
    report a failure inside a 200. Without an error that says its status: `provider_bad_reply`."""
    error = envelope.get("error")
    if isinstance(error, Mapping):
        fields = fields_of(error)
        status = fields.status or _TYPE_STATUS.get(fields.type or "")
        if status is not None:
            return refusal(status, fields, reply, said, settings=settings, now=now)
    return bad_reply(reply, said)


def refusal(
    status: int,
    fields: ErrorFields,
    reply: HttpReply,
    said: Said,
    *,
    settings: Collection[str],
    now: datetime,
) -> ProviderError:
    """As `read_refusal`, for a status that may come from inside the body of a 200."""
    kind, code = _kind(status, fields, settings)
    transient = kind is TransientProviderError
    asked = retry_after_seconds(reply.headers, now)
    if asked is None and fields.retry_after is not None:
        asked = min(fields.retry_after, MAX_RETRY_AFTER_SECONDS)
    return kind(
        code,
        status=reply.status,
        retry_after=asked if transient else None,
        request_id=reply.request_id or said.reply_id,
        partial=reply.body[:MAX_PARTIAL_BYTES],
        billed=transient and status not in _NOT_DONE,
        rate_limits=read_rate_limits(reply.headers, now),
        spent=said.spent,
    )


def _kind(status: int, fields: ErrorFields, settings: Collection[str]) -> tuple[type[ProviderError], str]:
    if status == 429 and not fields.names(QUOTA_CODES):
        return TransientProviderError, "provider_rate_limited"
    if status >= 500 or status in _TIMEOUTS or status in _OVERLOADED:
        return TransientProviderError, _transient_code(status)
    if fields.names(POLICY_CODES):
        return PolicyProviderError, "provider_refused"
    code = _configuration_code(status, fields, settings)
    if code is not None:
        return ConfigurationProviderError, code
    return RequestProviderError, "provider_request_rejected"


def _transient_code(status: int) -> str:
    if status in _TIMEOUTS:
        return "provider_timeout"
    return "provider_overloaded" if status in _OVERLOADED else "provider_server_error"


def _configuration_code(status: int, fields: ErrorFields, settings: Collection[str]) -> str | None:
    """The code of a failure that stops the version, or None if it concerns this one request."""
    if status == 402 or fields.names(QUOTA_CODES):
        return "provider_quota"
    if status in (401, 403, 407) or fields.names(AUTH_CODES):
        return "provider_auth"
    if status == 404 or fields.names(MODEL_CODES):
        return "provider_model_unknown"
    # A redirect is not followed: the base URL is wrong, and the key must not go anywhere else.
    if status < 400 or status in _WRONG_ADDRESS or _names_setting(fields, settings):
        return "provider_settings_rejected"
    return None


def _names_setting(fields: ErrorFields, settings: Collection[str]) -> bool:
    if fields.param is None:
        return False
    name = fields.param.partition(".")[0].partition("[")[0]
    return name in settings and name not in _RECORD_PARAMETERS
