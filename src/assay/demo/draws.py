"""Draws that are the same on every Python and every platform: numbers out of a hash, nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final, TypeVar

Item = TypeVar("Item")

_TWO_TO_32: Final = 2**32


class Draws:
    """An endless row of draws that depends on the seed and a number alone."""

    __slots__ = ("_block", "_key", "_numbers")

    def __init__(self, seed: int, number: int) -> None:
        self._key = f"{seed}|{number}|".encode()
        self._block = 0
        self._numbers: list[int] = []

    def below(self, limit: int) -> int:
        """A whole number from 0 to `limit - 1`, for limits up to a few thousand."""
        if not self._numbers:
            block = hashlib.sha512(self._key + str(self._block).encode()).digest()
            self._numbers = [int.from_bytes(block[i : i + 4], "big") for i in range(0, 64, 4)]
            self._block += 1
        return self._numbers.pop() * limit // _TWO_TO_32

    def happens(self, per_mille: int) -> bool:
        """True in `per_mille` of 1,000 draws."""
        return self.below(1000) < per_mille

    def between(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both included."""
        return low + self.below(high - low + 1)

    def one_of(self, items: Sequence[Item]) -> Item:
        """One of the items, each as likely as the others."""
        return items[self.below(len(items))]

    def weighted(self, items: Sequence[tuple[Item, int]]) -> Item:
        """One of the items, by whole-number weights."""
        point = self.below(sum(weight for _, weight in items))
        for item, weight in items:
            if point < weight:
                return item
            point -= weight
        return items[-1][0]
