"""What a model costs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Final

from assay.domain.failures import ConfigurationError

_CURRENCY: Final = re.compile(r"[A-Z]{3}")
_MILLION: Final = Decimal(1_000_000)


@dataclass(frozen=True, slots=True, init=False)
class Price:
    """Price per million tokens, exact: `Price("0.25", "2.00")`. `currency` is an ISO 4217 code."""

    input_per_million: Decimal
    output_per_million: Decimal
    currency: str

    def __init__(
        self,
        input_per_million: Decimal | float | str,
        output_per_million: Decimal | float | str,
        currency: str = "USD",
    ) -> None:
        object.__setattr__(self, "input_per_million", _amount(input_per_million))
        object.__setattr__(self, "output_per_million", _amount(output_per_million))
        if not _CURRENCY.fullmatch(currency):
            raise ConfigurationError("The currency of a Price is three capital letters, such as USD.")
        object.__setattr__(self, "currency", currency)

    def cost(self, input_tokens: int, output_tokens: int) -> Decimal:
        """Cost of one call in the price's currency."""
        return (self.input_per_million * input_tokens + self.output_per_million * output_tokens) / _MILLION


def _amount(value: Decimal | float | str) -> Decimal:
    try:
        amount = Decimal(repr(value) if isinstance(value, float) else value)
    except (InvalidOperation, TypeError, ValueError):
        amount = Decimal("NaN")
    if isinstance(value, bool) or not amount.is_finite() or amount < 0:
        raise ConfigurationError(
            "A Price needs amounts per million tokens, 0 or more, such as Price(0.25, 2)."
        )
    return amount
