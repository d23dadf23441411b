"""Failure classes and the typed errors that carry them.

    AssayError                 anything assay says to a person: one sentence and what to do
      ConfigurationError       settings, files or versions that do not fit
      Unreadable               sealed bytes of one record that do not open
      ProviderError            a model call that brought no answer to judge
        TransientProviderError     timeout, connection, 408/429/5xx: another try may help
        ConfigurationProviderError 401/403, unknown model, quota: stops the pipeline version
        PolicyProviderError        the provider refused this content
        RequestProviderError       the provider refused this one request (400, 413, 422)

Codes, their classes and destinations are in `failure_table`. Classification goes by these types and by
status codes, never by matching message text. Messages hold no record text and no response text.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from assay.domain.failure_table import FAILURE_TABLE, FailureClass, Origin, uses_attempt
from assay.domain.rate_limits import RateLimits

__all__ = [
    "PROVIDER_CODES",
    "AssayError",
    "ConfigurationError",
    "ConfigurationProviderError",
    "FailureClass",
    "PolicyProviderError",
    "ProviderError",
    "RequestProviderError",
    "Spent",
    "TransientProviderError",
    "Unreadable",
]


class AssayError(Exception):
    """An error with one clear sentence that says what to do. `exit_code` is what the CLI returns."""

    exit_code: int = 1


class ConfigurationError(AssayError):
    """A setting, a file or a version does not fit. Nothing was changed."""

    exit_code = 2


class Unreadable(AssayError):
    """Sealed bytes do not open: their key is gone, or they were changed. Concerns one record, not the run."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What the vendor says a failed call used, a refusal's tokens for example; None where it did not say.

    `input_tokens` includes those read from a cache (`cached_tokens`) and written to one.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    cache_write_tokens: int | None = None
    cost: Decimal | None = None
    model: str | None = None
    finish_reason: str | None = None


class ProviderError(AssayError):
    """A model call that brought no answer to judge.

    `code` is one of the closed list below; `status` the HTTP status where there was one; `retry_after`
    seconds the provider asked for (already clamped, at least 0); `request_id` the vendor's id; `partial`
    the bytes that did arrive; `billed` False only where no money can have been spent (the request never
    left, or was refused before work); `counts_attempt` False for failures that use up age, not attempts
    (429, connection failures), or nothing: by the failure table where it is not given. `rate_limits`: what
    the reply's headers say about limits. `spent` and `latency_ms` (milliseconds): what is known of the call.
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
        counts_attempt: bool | None = None,
        rate_limits: RateLimits | None = None,
        spent: Spent | None = None,
        latency_ms: float | None = None,
    ) -> None:
        super().__init__(code if status is None else f"{code} (HTTP {status})")
        self.code = code
        self.status = status
        self.retry_after = retry_after
        self.request_id = request_id
        self.partial = partial
        self.billed = billed
        self.counts_attempt = uses_attempt(code) if counts_attempt is None else counts_attempt
        self.rate_limits = rate_limits
        self.spent = spent
        self.latency_ms = latency_ms


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


# Codes of ProviderError, and their class.
PROVIDER_CODES: Final[dict[str, FailureClass]] = {
    rule.code: rule.failure_class for rule in FAILURE_TABLE.values() if rule.origin is Origin.PROVIDER
}
