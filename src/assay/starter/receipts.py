"""Receipts and invoices: what a model must read from their text, and what has to hold of it."""

from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from typing import Annotated

from pydantic import Field

from assay import (
    Confidence,
    Contract,
    DecimalText,
    Pipeline,
    Plain,
    Prompt,
    Quote,
    Quoted,
    Route,
    amounts_in,
    rule,
)

# Currencies without a smaller coin; all others are stated to two decimals.
WHOLE = frozenset({"CLP", "ISK", "JPY", "KRW", "VND"})

Currency = Annotated[str, Plain(), Field(pattern="^[A-Z]{3}$")]
# One row of a table: the white space between its columns may be copied otherwise.
Row = Annotated[str, Field(min_length=1, max_length=300), Quoted(fold_whitespace=True)]


class Text(Contract):
    """Words, with the span of the document that they were read from."""

    value: str
    evidence: Quote
    confidence: Confidence


class Day(Contract):
    """A date, however the document writes it."""

    value: date
    evidence: Quote
    confidence: Confidence


class Amount(Contract):
    """Money, however the document writes it."""

    value: DecimalText
    evidence: Quote
    confidence: Confidence

    @rule(version=1, fields=("value", "evidence"))
    def amount_is_in_its_quote(self) -> bool:
        return self.value in amounts_in(self.evidence)


class Line(Contract):
    """What was sold. `vat_rate` is a percentage."""

    description: str
    quantity: Decimal
    amount: DecimalText
    vat_rate: Decimal
    evidence: Row
    confidence: Confidence

    @rule(version=1, fields=("amount", "evidence"))
    def amount_is_in_its_row(self) -> bool:
        return self.amount in amounts_in(self.evidence)


class Vat(Contract):
    """All that is taxed at one rate."""

    rate: Decimal
    net: DecimalText
    tax: DecimalText


class Receipt(Contract, confidence="*", insufficient_evidence={"gross": None}, max_response_bytes=32768):
    """A receipt or an invoice. `rounding` is what a till adds to reach a coin that exists."""

    seller: Text | None
    number: Text | None
    issued: Day | None
    due: Day | None
    currency: Currency | None
    prices_include_vat: bool
    lines: list[Line]
    vat: list[Vat]
    net: DecimalText
    rounding: DecimalText
    gross: Amount | None

    @property
    def step(self) -> Decimal:
        """How far a stated amount may be from what it is worked out from, where it was rounded once."""
        return Decimal(1) if self.currency in WHOLE else Decimal("0.01")

    @rule(version=1, fields=("vat",))
    def tax_follows_from_each_rate(self) -> bool:
        return all(abs(each.net * each.rate / 100 - each.tax) <= self.step for each in self.vat)

    @rule(version=1, fields=("lines", "vat"))
    def lines_add_up_at_each_rate(self) -> bool:
        stated = {each.rate: each.net + (each.tax if self.prices_include_vat else 0) for each in self.vat}
        found = {each.rate: Decimal(0) for each in self.vat}
        for line in self.lines:
            found[line.vat_rate] = found.get(line.vat_rate, Decimal(0)) + line.amount
        return (
            len(stated) == len(self.vat)
            and found.keys() == stated.keys()
            and all(abs(found[rate] - stated[rate]) <= self.step for rate in stated)
        )

    @rule(version=1, fields=("net", "vat"))
    def net_is_the_sum_of_its_rates(self) -> bool:
        return total(each.net for each in self.vat) == self.net

    @rule(version=1, fields=("net", "vat", "rounding", "gross"))
    def net_and_tax_make_gross(self) -> bool:
        if self.gross is None:
            return not self.lines
        made = self.net + total(each.tax for each in self.vat) + self.rounding
        return abs(made - self.gross.value) <= self.step * len(self.vat)

    @rule(version=1, fields=("issued", "due"))
    def due_is_not_before_issued(self) -> bool:
        return self.issued is None or self.due is None or self.issued.value <= self.due.value

    @rule(version=1, fields=("currency",))
    def money_has_a_currency(self) -> bool:
        return self.gross is None or self.currency is not None


def total(amounts: Iterable[Decimal]) -> Decimal:
    return sum(amounts, Decimal(0))


pipeline = Pipeline(
    name="receipts",
    contract=Receipt,
    model="recorded:receipts.jsonl#answer",
    prompt=Prompt.from_file("receipts.md"),
    route=Route(accept_at=0.85),
)
