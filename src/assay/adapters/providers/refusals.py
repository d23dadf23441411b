"""From an HTTP status and the machine-readable fields of an error body to the typed error.

The text of a message is never looked at: it changes without notice and may quote the record.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from assay.adapters.providers.envelope import first, parse_json, text_field
from assay.adapters.providers.retry_after import retry_after_seconds
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
        "exceeded_current_quota_error",
    }
)
POLICY_CODES: Final = frozenset({"content_filter", "content_policy_violation", "moderation_blocked"})
MODEL_CODES: Final = frozenset({"model_not_found", "DeploymentNotFound"})
AUTH_CODES: Final = frozenset({"invalid_api_key", "account_deactivated"})

# Fields of the request that belong to the version, not to the record: a refusal of one would meet every
# record alike. Token limits are not among them: they collide with the length of one record.
_RECORD_PARAMETERS: Final = frozenset({"messages", "max_tokens", "max_completion_tokens"})

_TIMEOUTS: Final = frozenset({408, 504, 524})
_OVERLOADED: Final = frozenset({409, 425, 503, 529})
_WRONG_ADDRESS: Final = frozenset({405, 410})
_REFUSED_BEFORE_WORK: Final = frozenset({425, 429})


@dataclass(frozen=True, slots=True)
class ErrorFields:
    """What an error body says in fields made for machines; None where it does not."""

    code: str | None = None
    type: str | None = None
    param: str | None = None
    status: int | None = None

    def names(self, codes: Collection[str]) -> bool:
        return self.code in codes or self.type in codes


def error_fields(body: bytes) -> ErrorFields:
    """The fields of an error body; empty for a body that is no such thing. Never raises."""
    value = first(parse_json(body))
    if not isinstance(value, Mapping):
        return ErrorFields()
    inner = value.get("error")
    return fields_of(inner if isinstance(inner, Mapping) else value)


def fields_of(error: Mapping[str, object]) -> ErrorFields:
    """The fields of an error object as vendors write it; `status` where `code` is an HTTP status."""
    code = error.get("code")
    status = code if type(code) is int and 400 <= code <= 599 else None
    return ErrorFields(
        text_field(code), text_field(error.get("type")), text_field(error.get("param")), status
    )


def read_refusal(reply: HttpReply, *, settings: Collection[str], now: datetime) -> ProviderError:
    """The typed error for a reply whose status is not 2xx.

    `settings` are the names of the request's fields that come from the pipeline version (model,
    parameters, response format): a 400 that names one of them is a configuration failure.
    """
    return refusal(reply.status, error_fields(reply.body), reply, settings=settings, now=now)


def refusal(
    status: int, fields: ErrorFields, reply: HttpReply, *, settings: Collection[str], now: datetime
) -> ProviderError:
    """As `read_refusal`, for a status that may come from inside the body of a 200."""
    if status == 429 and not fields.names(QUOTA_CODES):
        return _transient("provider_rate_limited", status, reply, now)
    if status >= 500 or status in _TIMEOUTS or status in _OVERLOADED:
        return _transient(_transient_code(status), status, reply, now)
    if fields.names(POLICY_CODES):
        return PolicyProviderError(
            "provider_refused", status=reply.status, request_id=reply.request_id, billed=False
        )
    code = _configuration_code(status, fields, settings)
    if code is not None:
        return ConfigurationProviderError(
            code, status=reply.status, request_id=reply.request_id, billed=False
        )
    return RequestProviderError(
        "provider_request_rejected", status=reply.status, request_id=reply.request_id, billed=False
    )


def _transient_code(status: int) -> str:
    if status in _TIMEOUTS:
        return "provider_timeout"
    return "provider_overloaded" if status in _OVERLOADED else "provider_server_error"


def _transient(code: str, status: int, reply: HttpReply, now: datetime) -> TransientProviderError:
    return TransientProviderError(
        code,
        status=reply.status,
        retry_after=retry_after_seconds(reply.headers, now),
        request_id=reply.request_id,
        partial=reply.body[:MAX_PARTIAL_BYTES],
        billed=status not in _REFUSED_BEFORE_WORK,
        counts_attempt=status != 429,
    )


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
