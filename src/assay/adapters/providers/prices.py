"""What a call cost, in the price list's currency, as `Decimal`. Unknown is None, never 0."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Final, Protocol

from assay.adapters.providers.answers import Tokens
from assay.adapters.providers.price_list import find_listed

_MILLION: Final = Decimal(1_000_000)

CostOf = Callable[[Tokens], Decimal | None]


class Price(Protocol):
    """A price that the pipeline states: money per million tokens."""

    @property
    def input_per_million(self) -> Decimal: ...

    @property
    def output_per_million(self) -> Decimal: ...


def cost_function(price: Price | None, model: str, base_url: str) -> CostOf:
    """How to price a call: by the stated price, else by the optional price list, else never.

    The list is asked once: for this model at this base URL, so that a server of one's own which happens
    to use a vendor's model name is not charged at the vendor's price.
    """
    if price is not None:
        return stated_cost(price)
    listed = find_listed(model, base_url)
    if listed is None:
        return _unknown_cost
    listed_cost = listed.cost

    def cost(tokens: Tokens) -> Decimal | None:
        if tokens.input is None or tokens.output is None:
            return None
        if (tokens.cached or 0) + (tokens.cache_write or 0) > tokens.input:
            return None
        return listed_cost(tokens)

    return cost


def listed_price(model: str, base_url: str) -> Price | None:
    """The price list's price of input and output at its base tier, for reserves.

    None where the package is not installed or does not know this model at this address.
    """
    listed = find_listed(model, base_url)
    return None if listed is None else listed.base_price()


def stated_cost(price: Price) -> CostOf:
    """Input and output tokens times their price, cached input in full; None where either count is missing."""
    per_input, per_output = price.input_per_million, price.output_per_million

    def cost(tokens: Tokens) -> Decimal | None:
        if tokens.input is None or tokens.output is None:
            return None
        return (tokens.input * per_input + tokens.output * per_output) / _MILLION

    return cost


def _unknown_cost(tokens: Tokens) -> Decimal | None:
    return None
