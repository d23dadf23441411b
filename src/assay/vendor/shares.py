"""How often each fault happens."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from assay.vendor.errors import VendorSettingsError


def check_share(what: str, value: float) -> None:
    """Raises VendorSettingsError unless the value is from 0 to 1."""
    if not 0.0 <= value <= 1.0:  # also refuses NaN
        raise VendorSettingsError(f"{what} must be between 0 and 1")


@dataclass(frozen=True, slots=True)
class FaultShares:
    """How often each fault happens, as a share of calls (0 to 1). At most one happens in a call.

    New faults are added at the end: the draws of a seed depend on the order. `drawn` holds those whose
    share is more than 0.
    """

    rate_limited: float = 0.0
    server_error: float = 0.0
    prose_prefix: float = 0.0
    string_confidence: float = 0.0
    extra_field: float = 0.0
    truncation: float = 0.0
    hang: float = 0.0
    reset: float = 0.0
    reset_mid_body: float = 0.0
    drip: float = 0.0
    refusal: float = 0.0
    html: float = 0.0
    truncated_json: float = 0.0
    empty_choices: float = 0.0
    missing_usage: float = 0.0
    overloaded: float = 0.0
    timeout: float = 0.0
    unauthorised: float = 0.0
    forbidden: float = 0.0
    quota: float = 0.0
    model_switch: float = 0.0
    draft: float = 0.0
    dropped_field: float = 0.0
    mis_summed: float = 0.0
    string_number: float = 0.0
    wrong_quote: float = 0.0
    drawn: tuple[tuple[str, float], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, share in self.items():
            check_share(f"the share of {name}", share)
        if self.total > 1.0 + 1e-9:
            raise VendorSettingsError("the shares of faults add up to more than 1; lower one of them")
        drawn = tuple((name, share) for name, share in self.items() if share > 0.0)
        object.__setattr__(self, "drawn", drawn)

    @property
    def total(self) -> float:
        """The share of calls that meet any fault."""
        return sum(share for _, share in self.items())

    def items(self) -> tuple[tuple[str, float], ...]:
        """Fault names and shares in the order of their definition, which the draws depend on."""
        return tuple((one.name, float(getattr(self, one.name))) for one in fields(self) if one.init)
