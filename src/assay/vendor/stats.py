"""Counts of the practice vendor: by status, fault, outcome and account, with tokens and money."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields
from decimal import Decimal

from assay.vendor.gold import Json, JsonObject
from assay.vendor.price import written


@dataclass(slots=True)
class Totals:
    """Calls, how many of them were billed, their tokens and money (0 without a price list)."""

    calls: int = 0
    billed: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost: Decimal = Decimal(0)


@dataclass(slots=True)
class AccountStats:
    """One account: `admitted` past its limits, `refused` by them, the most in any window, and totals.

    The windows slide: `most_in_60s` is the most calls admitted in any 60 seconds.
    """

    admitted: int = 0
    refused: int = 0
    in_flight: int = 0
    peak_in_flight: int = 0
    most_in_60s: int = 0
    most_in_1s: int = 0
    most_tokens_in_60s: int = 0
    most_tokens_in_1s: int = 0
    totals: Totals = field(default_factory=Totals)


@dataclass(slots=True)
class Stats:
    """Counts since the start; `repeated_keys` came more than once, with `repeated_calls` calls too many.

    `replayed` calls got the first reply of their Idempotency-Key; `changes` counts changes of settings.
    """

    calls: int = 0
    ended: int = 0
    in_flight: int = 0
    peak_in_flight: int = 0
    wrong_answers: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    distinct_keys: int = 0
    repeated_keys: int = 0
    repeated_calls: int = 0
    without_key: int = 0
    cached_tokens: int = 0
    billed: int = 0
    cost: Decimal = Decimal(0)
    replayed: int = 0
    changes: int = 0
    by_status: Counter[str] = field(default_factory=Counter)
    by_fault: Counter[str] = field(default_factory=Counter)
    by_outcome: Counter[str] = field(default_factory=Counter)
    by_lookup: Counter[str] = field(default_factory=Counter)
    by_wire: Counter[str] = field(default_factory=Counter)
    totals_by_outcome: dict[str, Totals] = field(default_factory=dict)
    by_account: dict[str, AccountStats] = field(default_factory=dict)

    def account(self, name: str) -> AccountStats:
        """The counts of an account."""
        found = self.by_account.get(name)
        if found is None:
            found = self.by_account[name] = AccountStats()
        return found

    def as_json(self) -> JsonObject:
        """The counts as a JSON object with these names; money as decimal strings."""
        return {one.name: _plain(getattr(self, one.name)) for one in fields(self)}


def _plain(value: object) -> Json:
    if isinstance(value, Decimal):
        return written(value)
    if isinstance(value, (Totals, AccountStats)):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, int):
        return value
    raise TypeError(type(value).__name__)
