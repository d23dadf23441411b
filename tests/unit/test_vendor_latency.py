"""How long calls of the practice vendor take."""

from __future__ import annotations

from pathlib import Path
from statistics import mean, quantiles

import pytest

from assay.vendor.chance import Draws
from assay.vendor.latency import LONGEST, seconds
from assay.vendor.settings import VendorConfig, VendorSettingsError

GOLD = Path("g.jsonl")
UNITS = [Draws(3, b"", "latency", turn).unit() for turn in range(20_000)]


def _drawn(config: VendorConfig, tokens: int = 0) -> list[float]:
    return [seconds(config, unit, tokens) for unit in UNITS]


def test_uniform_is_what_it_was() -> None:
    config = VendorConfig(GOLD, latency=0.05, latency_spread=0.5)
    assert [seconds(config, unit, 9) for unit in (0.0, 0.5, 0.75)] == [0.025, 0.05, 0.0625]


def test_fixed_and_per_token() -> None:
    assert set(_drawn(VendorConfig(GOLD, latency=2.0, latency_distribution="fixed"))) == {2.0}
    config = VendorConfig(
        GOLD,
        latency=0.5,
        latency_spread=0.0,
        latency_distribution="per-token",
        latency_per_token=0.01,
    )
    assert seconds(config, 0.3, 40) == pytest.approx(0.9)
    assert seconds(config, 0.3, 0) == pytest.approx(0.5)


def test_exponential_has_its_mean() -> None:
    drawn = _drawn(VendorConfig(GOLD, latency=0.2, latency_distribution="exponential"))
    assert mean(drawn) == pytest.approx(0.2, rel=0.04)
    assert quantiles(drawn, n=100)[49] == pytest.approx(0.2 * 0.6931, rel=0.05)


def test_lognormal_has_its_percentiles() -> None:
    config = VendorConfig(GOLD, latency=0.4, latency_distribution="lognormal", latency_p99=3.0)
    percentiles = quantiles(_drawn(config), n=100)
    assert percentiles[49] == pytest.approx(0.4, rel=0.05)
    assert percentiles[98] == pytest.approx(3.0, rel=0.15)
    assert 0.0 < seconds(config, 0.0, 0) < seconds(config, 1 - 2**-53, 0) <= LONGEST


def test_lognormal_needs_its_percentile() -> None:
    with pytest.raises(VendorSettingsError, match="p99"):
        VendorConfig(GOLD, latency=0.4, latency_distribution="lognormal")
    with pytest.raises(VendorSettingsError, match="p99"):
        VendorConfig(GOLD, latency=0.4, latency_distribution="lognormal", latency_p99=0.1)
