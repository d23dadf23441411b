"""What the practice vendor can be told, checked before it starts."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Final


class VendorSettingsError(ValueError):
    """A setting or the gold file does not fit. One clear sentence that says what to do."""


def _check_share(what: str, value: float) -> None:
    if not 0.0 <= value <= 1.0:  # also refuses NaN
        raise VendorSettingsError(f"{what} must be between 0 and 1")


@dataclass(frozen=True, slots=True)
class FaultShares:
    """How often each fault happens, as a share of calls (0 to 1). At most one happens in a call."""

    rate_limited: float = 0.0
    server_error: float = 0.0
    prose_prefix: float = 0.0
    string_confidence: float = 0.0
    extra_field: float = 0.0
    truncation: float = 0.0

    def __post_init__(self) -> None:
        for name, share in self.items():
            _check_share(f"the share of {name}", share)
        if self.total > 1.0 + 1e-9:
            raise VendorSettingsError("the shares of faults add up to more than 1; lower one of them")

    @property
    def total(self) -> float:
        """The share of calls that meet any fault."""
        return sum(share for _, share in self.items())

    def items(self) -> tuple[tuple[str, float], ...]:
        """Fault names and shares in the order of their definition, which the draws depend on."""
        return tuple((one.name, float(getattr(self, one.name))) for one in fields(self))


@dataclass(frozen=True, slots=True)
class VendorConfig:
    """Settings of one practice vendor. Without shares it makes no faults and answers at once.

    `gold` is the file, `label_column` and `text_column` its columns (None: found by name); `label_field` is
    the answer's field for a bare label; `answer_fields` restricts and orders the answer where the request
    asks for no schema; `error_rate` the share of texts answered wrongly; `latency` the mean seconds per
    call, spread evenly over `latency * (1 ± latency_spread)`; `model` the only model served (None: any).
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

    def __post_init__(self) -> None:
        _check_share("the error rate", self.error_rate)
        _check_share("the latency spread", self.latency_spread)
        if not 0.0 <= self.latency <= 3600.0:
            raise VendorSettingsError("the latency must be between 0 and 3600 seconds")
        if not 0 <= self.retry_after <= 86_400:
            raise VendorSettingsError("retry-after must be between 0 and 86400 whole seconds")
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


ORDINARY_DAY: Final = FaultShares(
    rate_limited=0.02,
    server_error=0.01,
    prose_prefix=0.015,
    string_confidence=0.01,
    extra_field=0.01,
    truncation=0.01,
)
"""The command's defaults: every fault is met in a few hundred calls, few records fail twice."""
