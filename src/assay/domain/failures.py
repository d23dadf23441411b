"""Failure classes and the typed errors that carry them.

    AssayError                 anything assay says to a person: one sentence and what to do
      ConfigurationError       settings, files or versions that do not fit
      Unreadable               sealed bytes of one record that do not open
      ProviderError            a model call that brought no answer to judge
        TransientProviderError     timeout, connection, 408/429/5xx: another try may help
        ConfigurationProviderError 401/403, unknown model, quota: stops the pipeline version
        PolicyProviderError        the provider refused this content
        RequestProviderError       the provider refused this one request (400, 413, 422)

Classification goes by these types and by status codes, never by matching message text. Messages hold no
record text and no response text.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from assay.domain.rate_limits import RateLimits


class FailureClass(StrEnum):
    """Decides the route of a failure."""

    TRANSIENT = "transient"
    CONTRACT = "contract"
    AMBIGUOUS = "ambiguous"
    VERSION = "version"
    POLICY = "policy"
    CONFIGURATION = "configuration"


class AssayError(Exception):
    """An error with one clear sentence that says what to do. `exit_code` is what the CLI returns."""

    exit_code: int = 1


class ConfigurationError(AssayError):
    """A setting, a file or a version does not fit. Nothing was changed."""

    exit_code = 2


class Unreadable(AssayError):
    """Sealed bytes do not open: their key is gone, or they were changed. Concerns one record, not the run."""


class ProviderError(AssayError):
    """A model call that brought no answer to judge.

    `code` is one of the closed list below; `status` the HTTP status where there was one; `retry_after`
    seconds the provider asked for (already clamped, at least 0); `request_id` the vendor's id; `partial`
    the bytes that did arrive; `billed` False only where no money can have been spent (the request never
    left, or was refused before work); `counts_attempt` False for failures that use up age, not attempts
    (429, connection failures, an open breaker). `rate_limits`: what the reply's headers say about limits.
    """

    failure_class: FailureClass = FailureClass.TRANSIENT

    def __init__(
        self,
        code: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        request_id: str | None = None,
        partial: bytes = b"",
        billed: bool = True,
        counts_attempt: bool = True,
        rate_limits: RateLimits | None = None,
    ) -> None:
        super().__init__(code if status is None else f"{code} (HTTP {status})")
        self.code = code
        self.status = status
        self.retry_after = retry_after
        self.request_id = request_id
        self.partial = partial
        self.billed = billed
        self.counts_attempt = counts_attempt
        self.rate_limits = rate_limits


class TransientProviderError(ProviderError):
    """Another try may help: timeout, connection, 408, 429, 5xx, overloaded."""

    failure_class = FailureClass.TRANSIENT


class ConfigurationProviderError(ProviderError):
    """Nothing will work until a person acts: 401, 403, unknown model, exhausted quota."""

    failure_class = FailureClass.CONFIGURATION


class PolicyProviderError(ProviderError):
    """The provider refused this content."""

    failure_class = FailureClass.POLICY


class RequestProviderError(ProviderError):
    """The provider refused this one request as it is (400, 413, 422): the same call is not repeated."""

    failure_class = FailureClass.CONTRACT


# Codes of ProviderError, and who is asked to act. Contract codes of the boundary are in `boundary`.
PROVIDER_CODES: Final[dict[str, FailureClass]] = {
    "provider_timeout": FailureClass.TRANSIENT,
    "provider_connection": FailureClass.TRANSIENT,
    "provider_rate_limited": FailureClass.TRANSIENT,
    "provider_overloaded": FailureClass.TRANSIENT,
    "provider_server_error": FailureClass.TRANSIENT,
    "provider_bad_reply": FailureClass.TRANSIENT,
    "provider_adapter_error": FailureClass.TRANSIENT,
    "provider_auth": FailureClass.CONFIGURATION,
    "provider_model_unknown": FailureClass.CONFIGURATION,
    "provider_quota": FailureClass.CONFIGURATION,
    "provider_settings_rejected": FailureClass.CONFIGURATION,
    "provider_refused": FailureClass.POLICY,
    "provider_request_rejected": FailureClass.CONTRACT,
    "recorded_answer_ambiguous": FailureClass.CONTRACT,
}
