"""Finds which known text a message holds.

The whole message is tried first. Otherwise the longest known text inside it wins. Texts are grouped by
their first code points (the stem), and within a group by length, so one pass over the message with a
dictionary look-up per position suffices, however many texts are known and however alike they begin.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

How: TypeAlias = Literal["exact", "contained", "unknown"]

STEM: Final = 12
_EDGES: Final = re.compile(r"[\n\r\"'`<>]+")


@dataclass(frozen=True, slots=True)
class Match:
    """The known text and how it was found; for `unknown` the text is the message itself."""

    text: str
    how: How


class TextIndex:
    """An index of known texts.

    Texts shorter than the stem would be found by accident inside longer ones: they must stand alone
    between line breaks, quotes or tags.
    """

    __slots__ = ("_lengths", "_shorter", "_texts")

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = frozenset(texts)
        self._shorter = frozenset(text for text in self._texts if len(text) < STEM and text.strip())
        lengths: dict[str, set[int]] = {}
        for text in self._texts:
            if len(text) >= STEM:
                lengths.setdefault(text[:STEM], set()).add(len(text))
        self._lengths = {stem: tuple(sorted(found, reverse=True)) for stem, found in lengths.items()}

    def find(self, message: str) -> Match:
        """The known text in the message, or the message itself as `unknown`."""
        if message in self._texts:
            return Match(message, "exact")
        inside = self._longest_inside(message) or self._short_inside(message)
        return Match(message, "unknown") if inside is None else Match(inside, "contained")

    def _longest_inside(self, message: str) -> str | None:
        best = ""
        lengths_of = self._lengths.get
        for start in range(len(message) - STEM + 1):
            lengths = lengths_of(message[start : start + STEM])
            if lengths is not None:
                best = self._longest_at(message, start, lengths, best)
        return best or None

    def _longest_at(self, message: str, start: int, lengths: tuple[int, ...], best: str) -> str:
        room = len(message) - start
        for length in lengths:
            if length <= len(best):
                break
            if length <= room and (text := message[start : start + length]) in self._texts:
                return text
        return best

    def _short_inside(self, message: str) -> str | None:
        if not self._shorter:
            return None
        found = [
            part
            for piece in _EDGES.split(message)
            for part in (piece, piece.strip())
            if part in self._shorter
        ]
        return max(found, key=len) if found else None
