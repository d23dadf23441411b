"""What was found when the drill was over: in journals, files and tables, and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class VendorCall:
    """One call in the vendor's journal. `status` is None where no reply left; `wrong`: answered wrongly."""

    key: str | None
    request_id: str
    text_sha256: str | None
    fault: str | None
    status: int | None
    wrong: bool
    billed: bool
    cost: Decimal


@dataclass(frozen=True, slots=True)
class Label:
    """One label in a training set, and the call whose answer it is."""

    record_id: str
    category: str | None
    request_id: str | None


@dataclass(frozen=True, slots=True)
class Task:
    """One annotation. `finishes`: how often it got a business result; `served`: results that point at it."""

    task_id: int
    record_id: str
    state: str
    error_code: str | None
    category: str | None
    request_id: str | None
    finishes: int
    served: int

    @property
    def label(self) -> Label:
        """Its label."""
        return Label(self.record_id, self.category, self.request_id)


@dataclass(frozen=True, slots=True)
class LedgerCall:
    """One call in the product's ledger; `key` is what the vendor was given."""

    key: str
    pass_number: int
    outcome: str
    code: str | None


@dataclass(frozen=True, slots=True)
class Downstream:
    """What a consumer of the events has: (event id, applied) by delivery, (state, category) by record."""

    deliveries: Sequence[tuple[str, bool]] = ()
    labels: Mapping[str, tuple[str, str | None]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Audit:
    """How many invariants the audit checked, and which are broken."""

    checked: int
    broken: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """All of it. `gold`: the right category by record; `produced`: the record of each message, in order.

    `messages`: new inputs, known ones at another place, isolated. `events`: id, and whether it was published.
    """

    gold: Mapping[str, str]
    produced: Sequence[str]
    script_calls: Sequence[VendorCall]
    training: Sequence[Label]
    assay_calls: Sequence[VendorCall]
    tasks: Sequence[Task]
    ledger: Sequence[LedgerCall]
    messages: tuple[int, int, int]
    events: Mapping[str, bool]
    downstream: Downstream
    audit: Audit
