"""Number literals: which are whole, which a double holds, and what they are exactly."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Final

from assay.domain.findings import Findings, Invalid

BEYOND: Final = "number_beyond_float"
DIFFERS: Final = "number_not_interoperable"

_SAFE_INTEGER: Final = 2**53
# No double needs more digits than this to be written exactly; longer literals are not read as numbers.
_MAX_LITERAL: Final = 1100
_MAX_INTEGER_DIGITS: Final = 310
# The smallest double is 5e-324. Only a zero can be written with an exponent far beyond that and still be a
# double; databases (PostgreSQL's numeric) and decimal types refuse such a zero.
_MAX_ZERO_EXPONENT: Final = 400


def is_whole(literal: str) -> bool:
    """Whether the literal is an integer as written: no fraction, no exponent."""
    return literal.lstrip("-").isdigit()


def _judge_long(literal: str, findings: Findings) -> Invalid:
    """A literal that is too long for any double: beyond the range, or read differently by two parsers."""
    try:
        beyond = Decimal(literal).adjusted() > 308
    except (InvalidOperation, ValueError):
        beyond = "e-" not in literal.lower()
    return findings.wrong_value(BEYOND if beyond else DIFFERS)


def read_float(literal: str, findings: Findings) -> float | Invalid:
    """The double nearest to the literal.

    Refused: beyond the range of doubles, not zero but read as zero, a zero with an exponent that is not
    storable, and integers that a double cannot hold exactly (one parser keeps them, another rounds).
    """
    if len(literal) > _MAX_LITERAL:
        return _judge_long(literal, findings)
    value = float(literal)
    if value in (float("inf"), float("-inf")):
        return findings.wrong_value(BEYOND)
    if value == 0 and not _is_storable_zero(literal):
        return findings.wrong_value(DIFFERS)
    if abs(value) >= _SAFE_INTEGER and is_whole(literal) and int(value) != int(literal):
        return findings.wrong_value(DIFFERS)
    return value


def _is_storable_zero(literal: str) -> bool:
    """Whether a literal that reads as zero says zero, with an exponent that every reader takes."""
    digits, _, exponent = literal.lower().partition("e")
    return (
        not any(digit in "123456789" for digit in digits) and abs(int(exponent or "0")) <= _MAX_ZERO_EXPONENT
    )


def read_integer(literal: str, findings: Findings) -> int | Invalid:
    """The integer that the literal writes; fractions and exponents are another type."""
    if not is_whole(literal):
        return findings.wrong_type("int_type")
    if len(literal) > _MAX_INTEGER_DIGITS:
        return findings.wrong_value(BEYOND)
    value = int(literal)
    if -_SAFE_INTEGER <= value <= _SAFE_INTEGER:
        return value
    try:
        exact = int(float(value)) == value
    except OverflowError:
        return findings.wrong_value(BEYOND)
    return value if exact else findings.wrong_value(DIFFERS)


def read_decimal(literal: str, findings: Findings) -> Decimal | Invalid:
    """The exact decimal. Refused where a parser that reads doubles would read other digits."""
    nearest = read_float(literal, findings)
    if isinstance(nearest, Invalid):
        return nearest
    value = Decimal(literal)
    return value if value == Decimal(repr(nearest)) else findings.wrong_value(DIFFERS)
