"""The optional price list, genai-prices: a model is looked up once, a call is priced from what was found.

The package comes with its prices (nothing is fetched). Where all rates of a model are flat, its price is four
multiplications here instead of a pass through the package; a tier or a price that depends on the time of day
goes through the package. A test compares the two for every listed model.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final, Protocol

from assay.adapters.providers.answers import Tokens
from assay.domain.price import Price

_MILLION: Final = Decimal(1_000_000)
_RATES: Final = ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok", "cache_write_1h_mtok")


# Prices of what every call may have; the package counts them.
_OTHER_RATES: Final = ("requests_kcount", "output_reasoning_mtok")


class _Calculation(Protocol):
    @property
    def total_price(self) -> Decimal: ...


class _ListedModel(Protocol):
    @property
    def prices(self) -> object: ...

    @property
    def calc_price(self) -> Callable[..., _Calculation]: ...

    def get_prices(self, request_timestamp: datetime, /) -> object: ...


class _MakeUsage(Protocol):
    def __call__(self, **tokens: int) -> object: ...


@dataclass(frozen=True, slots=True)
class FlatRates:
    """Money per million tokens, where nothing else decides."""

    input: Decimal
    output: Decimal
    cached: Decimal
    cache_write: Decimal
    long_cache_write: Decimal

    def cost(self, tokens: Tokens) -> Decimal:
        cached, written = tokens.cached or 0, tokens.cache_write or 0
        long = min(tokens.long_cache_write or 0, written)
        fresh = (tokens.input or 0) - cached - written
        return (
            fresh * self.input
            + cached * self.cached
            + (written - long) * self.cache_write
            + long * self.long_cache_write
            + (tokens.output or 0) * self.output
        ) / _MILLION


class Listed:
    """One model of the price list at one address."""

    def __init__(self, model: _ListedModel, provider: object, make_usage: _MakeUsage) -> None:
        self._model = model
        self._provider = provider
        self._make_usage = make_usage
        self._flat = flat_rates(model.prices)

    def cost(self, tokens: Tokens) -> Decimal:
        """What these tokens cost; input and output must be known."""
        return self._flat.cost(tokens) if self._flat is not None else self.full_cost(tokens)

    def full_cost(self, tokens: Tokens) -> Decimal:
        """The same through the package, whatever the form of the price."""
        written = tokens.cache_write or 0
        usage = self._make_usage(
            input_tokens=tokens.input or 0,
            output_tokens=tokens.output or 0,
            cache_read_tokens=tokens.cached or 0,
            cache_write_tokens=written,
            cache_write_1h_tokens=min(tokens.long_cache_write or 0, written),
            output_reasoning_tokens=tokens.reasoning or 0,
        )
        return Decimal(self._model.calc_price(usage, self._provider).total_price)

    def base_price(self) -> Price | None:
        """Input and output at the base tier of the price of this moment; None where either is not listed."""
        prices = self._model.get_prices(datetime.now(UTC))
        rates = [_base(getattr(prices, name, None)) for name in _RATES[:2]]
        return None if rates[0] is None or rates[1] is None else Price(rates[0], rates[1])


def find_listed(model: str, base_url: str) -> Listed | None:
    """The model in the list; None without the package, for an unknown address or an unknown model."""
    try:
        package = importlib.import_module("genai_prices")
        snapshot = importlib.import_module("genai_prices.data_snapshot").get_snapshot()
    except ImportError:
        return None
    try:
        provider, listed = snapshot.find_provider_model(model, None, None, base_url)
    except LookupError:
        return None
    return Listed(listed, provider, package.Usage)


def flat_rates(prices: object) -> FlatRates | None:
    """The rates of a price without tiers and conditions, None for any other."""
    if isinstance(prices, list):
        return None
    found = [getattr(prices, name, None) for name in _RATES]
    if any(getattr(prices, name, None) is not None for name in _OTHER_RATES):
        return None
    if not all(rate is None or isinstance(rate, Decimal) for rate in found):
        return None
    fresh, output, cached, written, long = found
    if not isinstance(fresh, Decimal) or not isinstance(output, Decimal):
        return None
    cached = cached if isinstance(cached, Decimal) else fresh
    written = written if isinstance(written, Decimal) else fresh
    return FlatRates(fresh, output, cached, written, long if isinstance(long, Decimal) else written)


def _base(rate: object) -> Decimal | None:
    base = getattr(rate, "base", rate)
    return base if isinstance(base, Decimal) else None
