"""Counts per key with bounded memory."""

from __future__ import annotations


class SeenKeys:
    """Counts per key with bounded memory: the oldest half is forgotten when the bound is reached."""

    __slots__ = ("_half", "_new", "_old")

    def __init__(self, bound: int) -> None:
        self._half = bound // 2
        self._new: dict[bytes, int] = {}
        self._old: dict[bytes, int] = {}

    def add(self, key: bytes) -> int:
        """Count the key once more; returns how often it was seen before."""
        before = self.count(key)
        self._new[key] = before + 1
        if len(self._new) >= self._half:
            self._old, self._new = self._new, {}
        return before

    def count(self, key: bytes) -> int:
        """How often the key was seen."""
        return self._new.get(key) or self._old.get(key, 0)
