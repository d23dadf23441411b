"""Constraints of an annotation in the words of JSON Schema."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final

# attribute of an annotated_types or pydantic mark → JSON Schema keyword (those of lengths are per kind)
_KEYWORDS: Final[dict[str, str]] = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
    "min_length": "minLength",
    "max_length": "maxLength",
    "pattern": "pattern",
    "max_digits": "maxDigits",
    "decimal_places": "decimalPlaces",
}


def _plain(value: object) -> object:
    """A bound as JSON can say it; decimals as numbers, dates as text."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    return getattr(value, "pattern", value)


def keywords_of(marks: Iterable[object]) -> dict[str, Any]:
    """Bounds, lengths and patterns among the marks, by keyword; a later mark replaces an earlier one."""
    found: dict[str, Any] = {}
    for mark in marks:
        for attribute, keyword in _KEYWORDS.items():
            value = getattr(mark, attribute, None)
            if value is not None:
                found[keyword] = _plain(value)
    return found


# Of these the later mark must be the stricter one; of all others two different marks contradict each other.
_LOWER: Final = frozenset({"minimum", "exclusiveMinimum", "minLength"})
_UPPER: Final = frozenset({"maximum", "exclusiveMaximum", "maxLength", "maxDigits", "decimalPlaces"})


def overruled(marks: Iterable[object]) -> str | None:
    """The attribute (`max_length`, `ge` …) of a constraint that a later, looser mark would silently replace.

    Pydantic lets the last mark win, and puts `= Field(...)` before the marks inside `Annotated`:
    `reason: Reason = Field(max_length=50)` would mean 300.
    """
    found: dict[str, Any] = {}
    for mark in marks:
        for attribute, keyword in _KEYWORDS.items():
            value = getattr(mark, attribute, None)
            if value is None:
                continue
            if keyword in found and _is_looser(keyword, value, found[keyword]):
                return attribute
            found[keyword] = value
    return None


def _is_looser(keyword: str, value: Any, before: Any) -> bool:
    if keyword in _LOWER:
        return bool(value < before)
    if keyword in _UPPER:
        return bool(value > before)
    return bool(value != before)
