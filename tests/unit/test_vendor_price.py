"""The price list of the practice vendor."""

from __future__ import annotations

from decimal import Decimal

import pytest

from assay.vendor.errors import VendorSettingsError
from assay.vendor.price import Price, read_price, written


def test_costs_are_exact() -> None:
    price = read_price("0.25, 2.00, 0.025")
    assert price.cost(1000, 400, 50) == Decimal("0.00026")
    assert written(price.cost(1000, 400, 50)) == "0.00026"
    assert written(read_price("0.1,0.2").cost(3, 3, 1)) == "0.0000005"
    assert [written(Decimal(text)) for text in ("0", "0.00", "12.50", "100", "1E+2")] == [
        "0",
        "0",
        "12.5",
        "100",
        "100",
    ]


def test_cached_input_costs_the_same_unless_said() -> None:
    assert read_price("3,15") == Price(Decimal(3), Decimal(15), Decimal(3))


@pytest.mark.parametrize("wrong", ["", "1", "1,2,3,4", "a,b", "-1,2", "NaN,1", "inf,1"])
def test_what_is_no_price_list(wrong: str) -> None:
    with pytest.raises(VendorSettingsError, match="price"):
        read_price(wrong)
