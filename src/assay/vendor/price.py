"""The price list: what a call costs."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from assay.vendor.errors import VendorSettingsError

_MILLIONTH = Decimal("0.000001")


@dataclass(frozen=True, slots=True)
class Price:
    """Money per million tokens: input, output, and input read from the cache."""

    input: Decimal
    output: Decimal
    cached: Decimal

    def __post_init__(self) -> None:
        for amount in (self.input, self.output, self.cached):
            if not amount.is_finite() or amount < 0 or amount > 1_000_000:
                raise VendorSettingsError("a price per million tokens is a number from 0 to 1000000")

    def cost(self, prompt_tokens: int, cached_tokens: int, completion_tokens: int) -> Decimal:
        """What a call costs, exactly. `prompt_tokens` include the cached ones."""
        total = self.input * (prompt_tokens - cached_tokens) + self.output * completion_tokens
        if cached_tokens:
            total += self.cached * cached_tokens
        return total * _MILLIONTH

    def __str__(self) -> str:
        return f"{self.input},{self.output},{self.cached}"


def read_price(listed: str) -> Price:
    """Read `INPUT,OUTPUT[,CACHED]`; without CACHED, cached input costs as much as other input."""
    try:
        amounts = [Decimal(part.strip()) for part in listed.split(",")]
    except InvalidOperation as error:
        raise VendorSettingsError("write the price as INPUT,OUTPUT or INPUT,OUTPUT,CACHED") from error
    if len(amounts) not in (2, 3):
        raise VendorSettingsError("write the price as INPUT,OUTPUT or INPUT,OUTPUT,CACHED")
    return Price(amounts[0], amounts[1], amounts[2] if len(amounts) == 3 else amounts[0])


def written(cost: Decimal) -> str:
    """A cost as plain decimal digits, without an exponent or trailing zeros."""
    text = f"{cost:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
