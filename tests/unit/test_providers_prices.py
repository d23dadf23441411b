"""What calls cost by the price list: cached and written tokens at their own rates, for every model."""

from __future__ import annotations

from decimal import Decimal

import genai_prices
import pytest
from genai_prices.data_snapshot import get_snapshot

from assay.adapters.providers.answers import Tokens
from assay.adapters.providers.anthropic_reading import read_tokens
from assay.adapters.providers.price_list import FlatRates, Listed, flat_rates
from assay.adapters.providers.prices import cost_function, listed_price

OPENAI = "https://api.openai.com/v1"
ANTHROPIC = "https://api.anthropic.com/v1"


def test_cached_tokens_cost_less_and_written_ones_more() -> None:
    usage = {
        "input_tokens": 1000,
        "cache_read_input_tokens": 2000,
        "cache_creation_input_tokens": 3000,
        "cache_creation": {"ephemeral_5m_input_tokens": 2500, "ephemeral_1h_input_tokens": 500},
        "output_tokens": 100,
    }
    tokens = read_tokens(usage)
    assert tokens == Tokens(6000, 100, 2000, None, 3000, 500)
    cost = cost_function(None, "claude-opus-4-8", ANTHROPIC)(tokens)
    # Per million: 5 fresh, 0.5 read, 6.25 written for minutes, 10 written for an hour, 25 out.
    expected = 1000 * 5 + 2000 * Decimal("0.5") + 2500 * Decimal("6.25") + 500 * 10 + 100 * 25
    assert cost == expected / 1_000_000


def test_every_flat_price_agrees_with_the_package() -> None:
    tokens = Tokens(10_000, 700, 2_000, 50, 1_500, 400)
    compared = 0
    for provider in get_snapshot().providers:
        for model in provider.models:
            if flat_rates(model.prices) is not None:
                listed = Listed(model, provider, genai_prices.Usage)
                assert listed.cost(tokens) == listed.full_cost(tokens), model.id
                compared += 1
    assert compared > 1000


def test_a_tier_goes_through_the_package() -> None:
    cost = cost_function(None, "claude-sonnet-4-5-20250929", ANTHROPIC)
    small, large = cost(Tokens(1_000, 0)), cost(Tokens(300_000, 0))
    assert small is not None
    assert large is not None
    assert large > 300 * small, "the dearer tier holds for the whole request"


@pytest.mark.parametrize(
    ("model", "base_url", "price"),
    [
        ("gpt-5-mini", OPENAI, ("0.25", "2")),
        ("claude-sonnet-4-5", ANTHROPIC, ("3", "15")),
        ("no-such-model-at-all", OPENAI, None),
        ("gpt-5-mini", "http://127.0.0.1:8000/v1", None),
    ],
)
def test_the_base_tier_is_told_for_reserves(model: str, base_url: str, price: tuple[str, str] | None) -> None:
    found = listed_price(model, base_url)
    if price is None:
        assert found is None
    else:
        assert found is not None
        assert (found.input_per_million, found.output_per_million) == tuple(map(Decimal, price))


@pytest.mark.parametrize(
    "tokens",
    [Tokens(), Tokens(10, None), Tokens(None, 10), Tokens(10, 1, cached=20), Tokens(10, 1, 6, None, 6)],
)
def test_counts_that_are_missing_or_contradict_each_other_have_no_cost(tokens: Tokens) -> None:
    assert cost_function(None, "gpt-5-mini", OPENAI)(tokens) is None


def test_a_server_of_ones_own_is_not_charged_at_a_vendors_price() -> None:
    assert cost_function(None, "gpt-5-mini", "http://127.0.0.1:8000/v1")(Tokens(1, 1)) is None


def test_rates_that_are_not_listed_are_those_of_fresh_input() -> None:
    rates = FlatRates(*map(Decimal, (2, 8, 2, 2, 2)))
    assert rates.cost(Tokens(1_000_000, 0, 500_000, None, 100_000)) == 2
