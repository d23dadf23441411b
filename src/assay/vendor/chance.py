"""Every draw of the practice vendor.

A draw depends on the seed, on what it is for, on the text and (for faults and latency) on how often the
text was asked about before. It never depends on the order in which records arrive, so concurrent and
repeated runs meet the same answers, and a retry may meet another fault than the first call.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from typing import Final, TypeVar

Item = TypeVar("Item")

_TWO_TO_53: Final = float(2**53)
_EIGHT: Final = struct.Struct(">8Q")


def digest(text: str) -> bytes:
    """SHA-256 of the text in UTF-8; lone surrogates are kept as they are."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


class Draws:
    """Draws for one subject: `Draws(seed, text_digest, "answer")`. The n-th draw is always the same."""

    __slots__ = ("_key", "_numbers", "_round")

    def __init__(self, seed: int, subject: bytes, purpose: str, turn: int = 0) -> None:
        head = f"{seed}|{purpose}|{turn}|".encode()
        self._key = hashlib.blake2b(head + subject, digest_size=32).digest()
        self._numbers: list[int] = []
        self._round = 0

    def unit(self) -> float:
        """A number from 0 (included) to 1 (excluded), 53 bits."""
        if not self._numbers:
            block = hashlib.blake2b(self._round.to_bytes(8, "big"), key=self._key).digest()
            self._numbers = [number >> 11 for number in _EIGHT.unpack(block)[::-1]]
            self._round += 1
        return self._numbers.pop() / _TWO_TO_53

    def below(self, limit: int) -> int:
        """A whole number from 0 to `limit - 1`."""
        return int(self.unit() * limit)

    def one_of(self, items: Sequence[Item]) -> Item:
        """One of the items, each as likely as the others."""
        return items[self.below(len(items))]
