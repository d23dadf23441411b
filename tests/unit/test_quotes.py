"""Quotes that must stand in the record's text, and the amounts that a text may state."""

from __future__ import annotations

from decimal import Decimal

import pytest

from assay import amounts_in, occurs

TEXT = "TOTAL   CHF\t1'234.50\nDate: 3.4.2025  Caf\u00e9"


@pytest.mark.parametrize(
    ("quote", "verbatim", "folded"),
    [
        ("CHF\t1'234.50", True, True),
        ("TOTAL   CHF", True, True),
        ("TOTAL CHF", False, True),
        ("1'234.50 Date:", False, True),
        ("  TOTAL CHF ", False, True),
        ("Total   CHF", False, False),
        ("1234.50", False, False),
        ("Caf\u00e9", True, True),
        ("Cafe\u0301", False, False),
        ("", False, False),
        (" ", False, False),
        ("\n", False, False),
    ],
)
def test_what_occurs(quote: str, verbatim: bool, folded: bool) -> None:
    assert occurs(quote, TEXT) is verbatim
    assert occurs(quote, TEXT, fold_whitespace=True) is folded


@pytest.mark.parametrize(
    ("text", "amounts"),
    [
        ("Total 12.50", ["12.50"]),
        ("Summe: 12,50 EUR", ["12.50"]),
        ("EUR 1.143,00", ["1143.00"]),
        ("2,310.00", ["2310.00"]),
        ("1'234'567.89", ["1234567.89"]),
        ("1\u202f626,72\u00a0€", ["1626.72", "1", "626.72"]),
        ("1.234", ["1234", "1.234"]),
        ("\u00a51,130", ["1130", "1.130"]),
        ("Sconto -2,00", ["2.00", "-2.00"]),
        ("5.59-", ["5.59", "-5.59"]),
        ("0.10 0.20", ["0.10", "0.20"]),
        ("12.50.3", []),
        ("no amount", []),
    ],
)
def test_amounts_that_a_text_may_state(text: str, amounts: list[str]) -> None:
    assert amounts_in(text) == {Decimal(each) for each in amounts}


def test_every_digit_counts() -> None:
    assert amounts_in("12345678901234567.89") == {Decimal("12345678901234567.89")}
    assert Decimal("0.30000000000000004") not in amounts_in("0.30")
    assert amounts_in("9" * 5000) == frozenset()
