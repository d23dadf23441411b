"""Routes: the threshold is exact and inclusive, and a contract without a signal never auto-accepts."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from example_contracts import RECEIPT_TEXT, Receipt, Ticket, ticket

from assay import Accepted, Contract, Price, Route, judge
from assay.domain.failures import ConfigurationError
from assay.domain.route import decide


def decided(route: Route, contract: type[Contract], text: str) -> tuple[str, str | None]:
    verdict = judge(contract, text)
    assert isinstance(verdict, Accepted)
    state, reason = decide(route, verdict)
    return str(state), reason and str(reason)


@pytest.mark.parametrize(
    ("accept_at", "confidence", "expected"),
    [
        (0.85, 0.85, ("auto_candidate", None)),
        (0.85, 0.8499999999999999, ("review_pending", "low_confidence")),
        (Decimal("0.3"), 0.1 + 0.2, ("auto_candidate", None)),
        (0.1 + 0.2, 0.3, ("review_pending", "low_confidence")),
        (0, 0, ("auto_candidate", None)),
        (1, 1, ("auto_candidate", None)),
        (1, 0.9999999999999999, ("review_pending", "low_confidence")),
        (None, 1, ("review_pending", "no_threshold")),
    ],
)
def test_threshold(
    accept_at: Decimal | float | None, confidence: float, expected: tuple[str, str | None]
) -> None:
    assert decided(Route(accept_at), Ticket, ticket(confidence=confidence)) == expected


def test_insufficient_evidence_and_no_signal_go_to_a_person() -> None:
    unclear = ticket(category="unclear", confidence=1)
    assert decided(Route(0.5), Ticket, unclear) == ("review_pending", "insufficient_evidence")
    assert decided(Route(0.0), Receipt, RECEIPT_TEXT) == ("review_pending", "no_confidence_signal")


@pytest.mark.parametrize("wrong", [-0.1, 1.1, True, "0.5", float("nan"), Decimal("NaN")])
def test_a_threshold_is_a_number_from_0_to_1(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match="0 to 1"):
        Route(accept_at=wrong)


def test_a_price_is_exact() -> None:
    price = Price(0.1, "0.2")
    assert price.cost(3_000_000, 1) == Decimal("0.3000002")
    wrong: Any
    for wrong in (-1, "x", True, float("inf"), None):
        with pytest.raises(ConfigurationError, match="per million"):
            Price(wrong, 1)
    with pytest.raises(ConfigurationError, match="three capital letters"):
        Price(1, 1, "usd")
