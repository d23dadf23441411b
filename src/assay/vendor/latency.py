"""How long a call takes."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Final

from assay.vendor.settings import VendorConfig

LONGEST: Final = 3600.0
_NORMAL: Final = NormalDist()
_Z99: Final = _NORMAL.inv_cdf(0.99)
_SMALLEST: Final = 2.0**-54


def seconds(config: VendorConfig, unit: float, tokens: int) -> float:
    """Seconds of a call, at most an hour: the distribution inverted at `unit` (0 to 1, one draw per call).

    The log-normal has the median `latency` and the 99th percentile `latency_p99`: sigma is
    ln(p99 / p50) / z(0.99). `tokens` are those of the answer; they count for `per-token` alone.
    """
    kind, mean = config.latency_distribution, config.latency
    if kind == "uniform":
        return mean * (1 + config.latency_spread * (2 * unit - 1))
    if kind == "fixed":
        return mean
    if kind == "per-token":
        whole = mean + config.latency_per_token * tokens
        return min(LONGEST, whole * (1 + config.latency_spread * (2 * unit - 1)))
    if kind == "exponential":
        return min(LONGEST, -mean * math.log1p(-unit))
    sigma = math.log((config.latency_p99 or mean) / mean) / _Z99
    return min(LONGEST, mean * math.exp(sigma * _NORMAL.inv_cdf(max(unit, _SMALLEST))))
