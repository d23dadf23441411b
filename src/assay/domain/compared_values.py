"""When two values of a field are the same: as they are written, and under normalisation 1.

Normalisation 1, by the field's type in the contract, where the same are

    amount         equal numbers, as numbers or as text: 60.3 and 60.30
    date, time     equal dates and times, however they are written; gold's dates in a stated order
    text           equal after: Unicode form NFC; case folding; punctuation (the categories P*) taken out;
                   every run of white space as one space, none at the ends
    choice         what is written alike; booleans too

A value that its type cannot read, such as "RM 60.30" for an amount, is compared as text.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import date, datetime, time
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from typing import Final

from assay.domain.json_text import Json, Number
from assay.domain.quotes import folded

NORMALISATION: Final = 1
_AMOUNT: Final = re.compile(r"[+-]?[0-9]{1,1000}(?:\.[0-9]{1,1000})?(?:[eE][+-]?[0-9]{1,3})?")
_NUMBERS: Final = re.compile(r"([0-9]{1,4})[-./ ]([0-9]{1,2})[-./ ]([0-9]{1,4})\.?")
_DIGITS: Final = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})")
# Two digits of a year from here on are of the last century, as POSIX has it.
_LAST_CENTURY: Final = 69


class FieldKind(StrEnum):
    """The types that are compared each in its own way."""

    TEXT = "text"
    AMOUNT = "amount"
    DATE = "date"
    TIME = "time"
    CHOICE = "choice"


class DateOrder(StrEnum):
    """The order of year, month and day in dates of gold that are numbers alone."""

    YMD = "ymd"
    DMY = "dmy"
    MDY = "mdy"


def written(value: Json) -> str:
    """A single value as it is written: text as it is, numbers with their own digits, `true` and `false`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str.__str__(value) if isinstance(value, str) else ""


def is_nothing(value: Json) -> bool:
    """Whether a value says that there is none: null, or text that is empty or white space."""
    return value is None or (isinstance(value, str) and not isinstance(value, Number) and not value.strip())


def normalised(kind: FieldKind, value: Json, order: DateOrder = DateOrder.YMD) -> object:
    """What of a value is compared under normalisation 1; equal objects are the same value."""
    text = written(value)
    match kind:
        case FieldKind.AMOUNT if _AMOUNT.fullmatch(text.strip()):
            return Decimal(text.strip())
        case FieldKind.DATE if (day := read_date(text.strip(), order)) is not None:
            return day
        case FieldKind.TIME if (moment := _read_time(text.strip())) is not None:
            return moment
        case FieldKind.CHOICE:
            return text
        case _:
            return normal_text(text)


@lru_cache(maxsize=4096)  # an alignment asks for the same few texts again and again
def normal_text(text: str) -> str:
    """Text under normalisation 1."""
    plain = unicodedata.normalize("NFC", text).casefold()
    return folded("".join(char for char in plain if not unicodedata.category(char).startswith("P")))


def read_date(text: str, order: DateOrder) -> date | None:
    """The date that numbers alone say: 2025-03-30 and 20250330 in any order, 30/03/2025 in the stated one.

    A year of two digits is 1969 to 2068. None for anything else.
    """
    found = _DIGITS.fullmatch(text)
    parts = _NUMBERS.fullmatch(text) if found is None else found
    if parts is None:
        return None
    is_iso = found is not None or len(parts[1]) == 4
    numbers = dict(zip(DateOrder.YMD if is_iso else order, parts.groups(), strict=True))
    year = int(numbers["y"])
    if len(numbers["y"]) == 2:
        year += 1900 if year >= _LAST_CENTURY else 2000
    try:
        return date(year, int(numbers["m"]), int(numbers["d"]))
    except ValueError:
        return None


def _read_time(text: str) -> datetime | time | None:
    for read in (datetime.fromisoformat, time.fromisoformat):
        try:
            return read(text)
        except ValueError:
            continue
    return None
