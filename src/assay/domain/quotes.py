"""Quotes and amounts in a record's text: what a contract's rules ask of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Final

_SPACES: Final = re.compile(r"\s+")
# A longer number is no amount; reading it would cost time for nothing.
_LONGEST: Final = 40
_NUMBER: Final = re.compile(r"[0-9]+(?:[.,'\u2019 \u00a0\u202f][0-9]+)*")
_GROUP: Final = re.compile(r"[0-9]{3}(?![0-9'\u2019])")
_MOST_GROUPS: Final = 5
_SPACE_BETWEEN: Final = re.compile(r"[ \u00a0\u202f]")
_NEAR: Final = 3
_MINUS: Final = "-\u2212\u2013"


def folded(text: str) -> str:
    """The text with every run of white space (line ends too) as one space, and none at its ends."""
    return _SPACES.sub(" ", text).strip()


def occurs(quote: str, text: str, *, fold_whitespace: bool = False) -> bool:
    """Whether the quote is a span of the text: verbatim, code point by code point.

    With `fold_whitespace` both are compared as `folded` gives them. Nothing else is forgiven: neither case,
    nor punctuation, nor another Unicode form of a letter. A quote of white space alone occurs nowhere.
    """
    if not quote or quote.isspace():
        return False
    return folded(quote) in folded(text) if fold_whitespace else quote in text


def amounts_in(text: str) -> frozenset[Decimal]:
    """Every amount that the text may state, exactly.

    The decimal mark is a point or a comma; thousands, in groups of three, are parted by `.`, `,`, `'` or a
    space. What can be read in two ways is in both: "1.234" is 1234 and 1.234. A number beside a minus sign
    is in with and without it, for a dash may be one.

        amounts_in("Total 1.234,50 EUR") == {Decimal("1234.50")}
    """
    found: set[Decimal] = set()
    for match in _NUMBER.finditer(text):
        # A few characters to each side: a long text must not be copied for each of its numbers.
        before = text[max(0, match.start() - _NEAR) : match.start()].rstrip()[-1:]
        after = text[match.end() : match.end() + _NEAR].lstrip()[:1]
        signed = (before and before in _MINUS) or (after and after in _MINUS)
        for value in _readings(match[0]):
            found.update((value, -value) if signed else (value,))
    return frozenset(found)


def _readings(token: str) -> Iterator[Decimal]:
    parts = _SPACE_BETWEEN.split(token)
    for first, part in enumerate(parts):
        yield from _read([part])
        # Spaces part thousands, or numbers that stand side by side.
        last = first + 1
        while last < len(parts) and len(part) <= 3 and _GROUP.match(parts[last]):
            last += 1
            yield from _read(parts[first:last])
            if len(parts[last - 1]) > 3 or last - first > _MOST_GROUPS:
                break


def _read(parts: list[str]) -> Iterator[Decimal]:
    """The readings of one number whose thousands, if there are several parts, are parted by spaces."""
    token = " ".join(parts)
    if len(token) > _LONGEST:
        return
    whole, mark, fraction = _cut(token)
    if fraction.isdigit() and (grouped := _ungrouped(whole, mark)) is not None:
        yield Decimal(f"{grouped}.{fraction}")
    if (grouped := _ungrouped(token, "")) is not None:
        yield Decimal(grouped)


def _cut(token: str) -> tuple[str, str, str]:
    """What stands before the last point or comma, that mark, and what follows it."""
    place = max(token.rfind("."), token.rfind(","))
    return (token, "", "") if place < 0 else (token[:place], token[place], token[place + 1 :])


def _ungrouped(whole: str, mark: str) -> str | None:
    """The digits of a whole number, plain or in groups of three with one separator other than `mark`."""
    separators = {char for char in whole if not char.isdigit()}
    if not separators:
        return whole
    if len(separators) > 1 or mark in separators:
        return None
    first, *others = whole.split(separators.pop())
    if 1 <= len(first) <= 3 and all(len(group) == 3 for group in others):
        return "".join([first, *others])
    return None
