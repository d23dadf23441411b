"""What the practice vendor can be told, checked before it starts and at every change."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeAlias

from assay.vendor.errors import VendorSettingsError
from assay.vendor.price import Price
from assay.vendor.shares import FaultShares, check_share

Distribution: TypeAlias = Literal["fixed", "uniform", "exponential", "lognormal", "per-token"]
Idempotency: TypeAlias = Literal["honoured", "ignored"]
KeyState: TypeAlias = Literal["valid", "invalid", "forbidden", "exhausted"]
Down: TypeAlias = Literal["no", "refusing", "closing"]
RetryAfterForm: TypeAlias = Literal["seconds", "date"]

LONGEST_SECONDS: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class VendorConfig:
    """Settings of one practice vendor. Without shares it makes no faults and answers at once.

    `gold` is the file, `label_column` and `text_column` its columns (None: found by name); `label_field` is
    the answer's field for a bare label; `answer_fields` restricts and orders the answer where the request
    asks for no schema; `error_rate` the share of texts answered wrongly; `latency` the seconds per call, the
    mean or (lognormal) the median, as `latency_distribution` says; `model` the only model served (None: any).

    Limits are per account, that is per API key, and per minute; a bucket holds `limit_burst` seconds' worth.
    `key_state` and `down` concern every caller. `docs/practice-vendor.md` tells what each name does; those
    in `changes.CHANGEABLE` can change while it runs.
    """

    gold: Path
    label_column: str | None = None
    text_column: str | None = None
    host: str = "127.0.0.1"
    port: int = 0
    seed: int = 0
    error_rate: float = 0.0
    latency: float = 0.0
    latency_spread: float = 0.5
    retry_after: int = 1
    faults: FaultShares = field(default_factory=FaultShares)
    label_field: str = "category"
    answer_fields: tuple[str, ...] | None = None
    model: str | None = None
    api_key: str | None = None
    journal: Path | None = None
    remembered_keys: int = 1_000_000
    latency_distribution: Distribution = "uniform"
    latency_p99: float | None = None
    latency_per_token: float = 0.0
    retry_after_form: RetryAfterForm = "seconds"
    hang_seconds: float = 3600.0
    drip_seconds: float = 30.0
    switched_model: str | None = None
    reply_model: str | None = None
    limit_requests: int | None = None
    limit_tokens: int | None = None
    limit_concurrency: int | None = None
    limit_burst: float = 1.0
    hide_limits: bool = False
    idempotency: Idempotency = "ignored"
    price: Price | None = None
    cached_share: float = 0.0
    key_state: KeyState = "valid"
    down: Down = "no"
    timeline: Path | None = None

    def __post_init__(self) -> None:
        check_share("the error rate", self.error_rate)
        check_share("the latency spread", self.latency_spread)
        check_share("the cached share", self.cached_share)
        self._check_times()
        self._check_limits()
        if not 0 <= self.port <= 65_535:
            raise VendorSettingsError("the port must be between 0 (any free one) and 65535")
        if not _is_loopback(self.host):
            raise VendorSettingsError("the practice vendor serves this machine only; use --host 127.0.0.1")
        if not self.label_field or self.label_field in ("confidence", "reason"):
            raise VendorSettingsError("the label field needs a name of its own, such as category")
        if self.answer_fields is not None and not self.answer_fields:
            raise VendorSettingsError("name at least one field of the answer, or leave --fields out")
        if self.remembered_keys < 2:
            raise VendorSettingsError("the number of remembered keys must be at least 2")

    def _check_times(self) -> None:
        if not 0.0 <= self.latency <= 3600.0:
            raise VendorSettingsError("the latency must be between 0 and 3600 seconds")
        if not 0.0 <= self.latency_per_token <= 60.0:
            raise VendorSettingsError("the latency per token must be between 0 and 60 seconds")
        if self.latency_p99 is not None and not self.latency <= self.latency_p99 <= 3600.0:
            raise VendorSettingsError("latency_p99 is at least the latency and at most 3600 seconds")
        if self.latency_distribution == "lognormal" and (self.latency_p99 is None or self.latency <= 0.0):
            raise VendorSettingsError("lognormal latency needs --latency (the median) and --latency-p99")
        if not 0 <= self.retry_after <= LONGEST_SECONDS:
            raise VendorSettingsError("retry-after must be between 0 and 86400 whole seconds")
        for name, seconds in (("hang_seconds", self.hang_seconds), ("drip_seconds", self.drip_seconds)):
            if not 0.0 <= seconds <= LONGEST_SECONDS:
                raise VendorSettingsError(f"{name} must be between 0 and 86400")

    def _check_limits(self) -> None:
        for what, limit in (
            ("requests per minute", self.limit_requests),
            ("tokens per minute", self.limit_tokens),
            ("calls at once", self.limit_concurrency),
        ):
            if limit is not None and limit < 1:
                raise VendorSettingsError(f"the limit of {what} must be at least 1; leave it out for none")
        if not 0.0 < self.limit_burst <= 60.0:
            raise VendorSettingsError("the burst must be more than 0 and at most 60 seconds")


@dataclass(frozen=True, slots=True)
class Launch:
    """A vendor to serve as a process of its own: settings, the file that says it listens, when to stop."""

    config: VendorConfig
    ready_file: Path | None = None
    stop_with_stdin: bool = False


def split_gold(spec: str) -> tuple[Path, str | None]:
    """Read `FILE` or `FILE#COLUMN`. A file whose own name holds the `#` is taken as it is."""
    whole = Path(spec)
    name, mark, column = spec.rpartition("#")
    if not mark or whole.is_file():
        return whole, None
    if not name or not column:
        raise VendorSettingsError("write the gold file as FILE or FILE#LABEL_COLUMN")
    return Path(name), column


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


__all__ = [
    "ORDINARY_DAY",
    "Distribution",
    "Down",
    "FaultShares",
    "Idempotency",
    "KeyState",
    "Launch",
    "RetryAfterForm",
    "VendorConfig",
    "VendorSettingsError",
    "split_gold",
]

ORDINARY_DAY: Final = FaultShares(
    rate_limited=0.02,
    server_error=0.01,
    prose_prefix=0.015,
    string_confidence=0.01,
    extra_field=0.01,
    truncation=0.01,
)
"""The command's defaults: every fault is met in a few hundred calls, few records fail twice."""
