"""Medians and ratios of interleaved measurements."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

Name = TypeVar("Name")


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of some measurements, the smallest and the largest."""

    median: float
    low: float
    high: float
    count: int

    @property
    def swing(self) -> float:
        """How far the measurements lie apart, as a share of the median."""
        return (self.high - self.low) / self.median if self.median else 0.0


def spread(values: Iterable[float]) -> Spread:
    """Raises `ValueError` without values."""
    found = sorted(values)
    if not found:
        raise ValueError("there is nothing to take the median of")
    return Spread(statistics.median(found), found[0], found[-1], len(found))


def ratios(rounds: Sequence[Mapping[str, float]], above: str, below: str) -> Spread | None:
    """`above` over `below`, taken round by round; None where no round has both.

    The machine drifts between rounds, hardly within one: the median of the ratios is steadier than the ratio
    of the medians.
    """
    found = [each[above] / each[below] for each in rounds if each.get(above) and each.get(below)]
    return spread(found) if found else None


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of the measurements lie (nearest rank); 0 without values."""
    if not values:
        return 0.0
    found = sorted(values)
    rank = min(int(share * len(found)), len(found) - 1)
    return found[rank]


def rotated(names: Sequence[Name], turn: int) -> list[Name]:
    """The names, begun at another one each round: nobody is always the first, or the last."""
    if not names:
        return []
    start = turn % len(names)
    return [*names[start:], *names[:start]]
