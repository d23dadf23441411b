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
