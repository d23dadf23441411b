"""What a call cost, in the price list's currency, as `Decimal`. Unknown is None, never 0."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from decimal import Decimal
from typing import Final, Protocol

from assay.ports import Usage

_MILLION: Final = Decimal(1_000_000)

CostOf = Callable[[Usage], Decimal | None]


class Price(Protocol):
    """A price that the pipeline states: money per million tokens."""

    @property
    def input_per_million(self) -> Decimal: ...

    @property
    def output_per_million(self) -> Decimal: ...


class _ListedModel(Protocol):
    """A model of the optional package genai-prices, already resolved."""

    def __call__(self, input_tokens: int, output_tokens: int, cached_tokens: int) -> Decimal: ...


def cost_function(price: Price | None, model: str, base_url: str) -> CostOf:
    """How to price a call: by the stated price, else by the optional price list, else never.

    The list is asked once: for this model at this base URL, so that a server of one's own which happens
    to use a vendor's model name is not charged at the vendor's price.
    """
    if price is not None:
        return stated_cost(price)
    listed = _listed_model(model, base_url)
    return listed_cost(listed) if listed is not None else _unknown_cost


def stated_cost(price: Price) -> CostOf:
    """Input and output tokens times their price; None where either count is missing."""
    per_input, per_output = price.input_per_million, price.output_per_million

    def cost(usage: Usage) -> Decimal | None:
        if usage.input_tokens is None or usage.output_tokens is None:
            return None
        return (usage.input_tokens * per_input + usage.output_tokens * per_output) / _MILLION

    return cost


def listed_cost(listed: _ListedModel) -> CostOf:
    """By the price list, cached input apart; None for counts that are missing or contradict each other."""

    def cost(usage: Usage) -> Decimal | None:
        if usage.input_tokens is None or usage.output_tokens is None:
            return None
        cached = usage.cached_tokens or 0
        if cached > usage.input_tokens:
            return None
        return listed(usage.input_tokens, usage.output_tokens, cached)

    return cost


def _unknown_cost(usage: Usage) -> Decimal | None:
    return None


def _listed_model(model: str, base_url: str) -> _ListedModel | None:
    try:
        package = importlib.import_module("genai_prices")
        snapshot = importlib.import_module("genai_prices.data_snapshot").get_snapshot()
    except ImportError:
        return None
    try:
        provider, listed = snapshot.find_provider_model(model, None, None, base_url)
    except LookupError:
        return None

    def cost(input_tokens: int, output_tokens: int, cached_tokens: int) -> Decimal:
        usage = package.Usage(
            input_tokens=input_tokens, output_tokens=output_tokens, cache_read_tokens=cached_tokens
        )
        return Decimal(listed.calc_price(usage, provider).total_price)

    return cost
