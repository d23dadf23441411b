"""From what pydantic-ai raised, and what was captured, to our typed errors: by type and status alone."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime

import httpx2
from pydantic_ai import exceptions

from assay.adapters.providers.answers import NOTHING_SAID
from assay.adapters.providers.pydantic_ai_capture import Capture
from assay.adapters.providers.rate_limit_headers import read_rate_limits
from assay.adapters.providers.refusals import ErrorFields, refusal
from assay.adapters.providers.retry_after import MAX_RETRY_AFTER_SECONDS
from assay.adapters.providers.transport import HttpReply
from assay.domain.failures import (
    ConfigurationProviderError,
    PolicyProviderError,
    ProviderError,
    TransientProviderError,
)

_NEVER_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


def cut_short(
    capture: Capture, error: Exception, *, settings: Collection[str], now: datetime
) -> ProviderError:
    """The typed error for a call that brought no whole reply."""
    if capture.guarded:
        return ConfigurationProviderError("provider_settings_rejected", billed=False)
    if capture.status is None:
        if capture.requests == 0 or isinstance(error, exceptions.ModelHTTPError):
            return _unseen(error, capture, settings, now)
        if any(isinstance(cause, _NEVER_SENT) for cause in _causes(error)):
            return TransientProviderError("provider_connection", billed=False)
    return TransientProviderError(
        _code(capture, error),
        status=capture.status,
        request_id=capture.request_id,
        partial=capture.partial,
        rate_limits=read_rate_limits(capture.headers, now),
    )


def _code(capture: Capture, error: Exception) -> str:
    causes = list(_causes(error))
    if capture.too_large or any(isinstance(cause, httpx2.DecodingError) for cause in causes):
        return "provider_bad_reply"
    if any(isinstance(cause, TimeoutError | httpx2.TimeoutException) for cause in causes):
        return "provider_timeout"
    return "provider_connection"


def _unseen(error: Exception, capture: Capture, settings: Collection[str], now: datetime) -> ProviderError:
    """For a vendor who is not called over our HTTP client: pydantic-ai's own types decide."""
    if isinstance(error, exceptions.ModelHTTPError):
        return _refused(error, capture, settings, now)
    if isinstance(error, exceptions.ContentFilterError):
        return PolicyProviderError("provider_refused")
    if isinstance(error, exceptions.UserError):
        return ConfigurationProviderError("provider_settings_rejected", billed=False)
    never_sent = isinstance(error, exceptions.ModelConnectionError) and error.phase in ("pool", "connect")
    return TransientProviderError(_unseen_code(error), billed=not never_sent)


def _unseen_code(error: Exception) -> str:
    if isinstance(error, TimeoutError | exceptions.ModelTimeoutError | exceptions.ModelRequestTimeout):
        return "provider_timeout"
    if isinstance(error, exceptions.ModelConnectionError):
        return "provider_connection"
    if isinstance(error, exceptions.ModelAPIError | exceptions.UnexpectedModelBehavior):
        return "provider_bad_reply"
    return "provider_adapter_error"


def _refused(
    error: exceptions.ModelHTTPError, capture: Capture, settings: Collection[str], now: datetime
) -> ProviderError:
    fields = ErrorFields(error.provider_error_code, error.provider_error_type)
    reply = HttpReply(error.status_code, error.headers or {}, b"", capture.latency_ms, None)
    failure = refusal(error.status_code, fields, reply, NOTHING_SAID, settings=settings, now=now)
    if failure.retry_after is None and error.retry_after is not None:
        failure.retry_after = min(max(error.retry_after, 0.0), MAX_RETRY_AFTER_SECONDS)
    return failure


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what it was raised from, outermost first."""
    at: BaseException | None = error
    seen: set[int] = set()
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        yield at
        at = at.__cause__ or at.__context__
