"""A budget of bytes for record texts in memory: read, queued, held or in flight, all in one number."""

from __future__ import annotations

import asyncio
import sys


class MemoryBudget:
    """Counts bytes of texts. Whoever reads ahead waits for room; one text always fits, however large."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = 0
        self._freed = asyncio.Event()

    @property
    def held(self) -> int:
        """Bytes counted just now."""
        return self._held

    @property
    def left(self) -> int:
        """Bytes that still fit."""
        return max(self._most - self._held, 0)

    def take(self, size: int) -> None:
        """Count `size` bytes more."""
        self._held += size

    def give_back(self, size: int) -> None:
        """Count `size` bytes less."""
        self._held -= size
        self._freed.set()

    async def room(self) -> None:
        """Wait until something fits."""
        while self._held >= self._most:
            self._freed.clear()
            await self._freed.wait()


def size_of(text: str) -> int:
    """Bytes that a text takes in memory."""
    return sys.getsizeof(text)
