"""Contracts that the tests share: a ticket, and a receipt with line items and business rules."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import Field

from assay import Confidence, Contract, Plain, Reason, rule


class Ticket(Contract, insufficient_evidence={"category": "unclear"}):
    category: Literal["billing", "technical", "other", "unclear"]
    confidence: Confidence
    reason: Reason


class LineItem(Contract):
    description: str
    quantity: Annotated[int, Field(ge=1)]
    amount: Decimal


class Receipt(Contract):
    company: str
    issued: date
    address: str | None
    currency: Annotated[str, Plain(), Field(pattern="^[A-Z]{3}$")]
    total: Annotated[Decimal, Field(ge=0, decimal_places=2)]
    lines: Annotated[list[LineItem], Field(min_length=1)]

    @rule(version=1, fields=("total", "lines"))
    def lines_add_up(self) -> bool:
        return sum((line.amount for line in self.lines), Decimal(0)) == self.total

    @rule(version=2, name="plausible_date", fields=("issued",))
    def not_before_receipts(self) -> None:
        if self.issued.year < 1970:
            raise ValueError(f"{self.issued} is too early")


TICKET: dict[str, object] = {"category": "billing", "confidence": 0.93, "reason": "asks about an invoice"}
RECEIPT_TEXT = (
    '{"company": "Lim & Söhne", "issued": "2018-03-25", "address": null, "currency": "MYR", "total": 60.30,'
    ' "lines": [{"description": "cement", "quantity": 2, "amount": 60.30}]}'
)


def ticket(**changes: object) -> str:
    """A good ticket as JSON, with changes."""
    return json.dumps({**TICKET, **changes})
