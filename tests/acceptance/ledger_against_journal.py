"""The product's ledger against the vendor's journal, call by call and to the last digit of money.

Both name a call by its idempotency key (attempt.task.pass). A ledger call is

- `kept`: its answer, or refusal, came back. Tokens and money are those of the journal, exactly.
- `untold`: nobody said what it cost (billed, cost unknown). The vendor's bill is no more than the reserve
  that a spend cap counts it at.
- `unknown`: its answer was lost with its worker. It stands at its reserve, which covers the vendor's bill.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Final, Literal, TypeAlias

from assay.vendor.entries import Entry
from assay.vendor.journal import read_journal
from labelling_project import Project

Kind: TypeAlias = Literal["kept", "untold", "unknown"]
# So many differing keys of a kind are named in a failure.
NAMED: Final = 5
# What became of an answer that was read to its end.
_JUDGED: Final = frozenset({"accepted", "rejected"})
# What a call without a status says: nobody knows whether it arrived.
_UNSEEN: Final = frozenset({"provider_connection", "provider_timeout"})


@dataclass(frozen=True, slots=True)
class LedgerCall:
    """One row of `assay.calls`."""

    outcome: str
    code: str | None
    status: int | None
    billed: bool
    request_id: str | None
    tokens: tuple[int, int, int]
    cost: Decimal | None

    @property
    def kind(self) -> Kind:
        if self.outcome == "outcome_unknown":
            return "unknown"
        return "untold" if self.billed and self.cost is None else "kept"

    @property
    def may_not_have_arrived(self) -> bool:
        """Whether the vendor need not know of it."""
        return self.kind == "unknown" or (self.status is None and self.code in _UNSEEN)


@dataclass(frozen=True, slots=True)
class TwoBooks:
    """Both books, and three sums kept elsewhere: `spent` is what `assay.spend` has added up as calls were
    written, `spent_calls` their number, `reserve` what one lost call is charged at. `attempts` are the leases
    (attempt.task) that the history knows."""

    journal: tuple[tuple[str, Entry], ...]
    ledger: Mapping[str, LedgerCall]
    attempts: frozenset[str]
    spent: Decimal
    spent_calls: int
    reserve: Decimal

    def keys(self, kind: Kind) -> set[str]:
        return {key for key, call in self.ledger.items() if call.kind == kind}

    @property
    def lost(self) -> set[str]:
        """Calls that reached the vendor and whose answer nobody kept."""
        return self.keys("unknown") & {key for key, _ in self.journal}

    def late(self) -> set[str]:
        """Calls whose answer came back after their lease was lost."""
        return {key for key, call in self.ledger.items() if call.outcome == "lease_lost"}

    def discrepancies(self) -> list[str]:
        """Where the books do not agree; empty when they do."""
        return [*self._differing_keys(), *self._differing_calls(), *self._differing_sums()]

    def _differing_keys(self) -> list[str]:
        sent = Counter(key for key, _ in self.journal)
        known = self.ledger.keys()
        return [
            *_named("sent more than once", (key for key, count in sent.items() if count > 1)),
            *_named("of no attempt", (key for key in sent if key.rpartition(".")[0] not in self.attempts)),
            *_named("journalled and not in the ledger", sent.keys() - known),
            *_named("in the ledger and never seen by the vendor", (
                key for key in known - sent.keys() if not self.ledger[key].may_not_have_arrived)),
        ]  # fmt: skip

    def _differing_calls(self) -> list[str]:
        found: list[str] = []
        for key, entry in self.journal:
            call = self.ledger.get(key)
            if call is None:
                continue
            bill = _bill(entry)
            if call.kind == "untold" and call.outcome in _JUDGED and entry.fault != "missing_usage":
                # Whoever read an answer to its end was told what it cost.
                found.append(f"{key} ({call.outcome}, {entry.fault}): its cost is not in the ledger")
            if call.kind != "kept":
                charged = call.cost if call.cost is not None else self.reserve
                # The reserve grows with the longest text in play, so a lost call may stand at an earlier one.
                if call.kind == "unknown" and not 0 < charged <= self.reserve:
                    found.append(f"{key}: charged {call.cost}, the reserve is {self.reserve}")
                if bill > charged:
                    found.append(f"{key}: {call.kind}, billed {bill}, more than its reserve {charged}")
                continue
            ours = (call.status, call.request_id, *call.tokens, call.cost)
            theirs = (entry.status, entry.request_id, entry.prompt_tokens, entry.completion_tokens,
                      entry.cached_tokens, bill)  # fmt: skip
            if ours != theirs:
                found.append(f"{key} ({call.outcome}, {entry.outcome}): ledger {ours}, journal {theirs}")
        return found if len(found) <= NAMED else [*found[:NAMED], f"and {len(found) - NAMED} more"]

    def _differing_sums(self) -> list[str]:
        """Ledger = journal - bills of calls whose cost nobody told us + reserves of the lost ones."""
        found = []
        if self.spent_calls != len(self.ledger):
            found.append(f"{self.spent_calls} calls were added up, {len(self.ledger)} are in the ledger")
        untold = self.keys("untold") | self.keys("unknown")
        billed = sum((_bill(entry) for _, entry in self.journal), Decimal(0))
        hidden = sum((_bill(entry) for key, entry in self.journal if key in untold), Decimal(0))
        lost = (self.ledger[key].cost for key in self.keys("unknown"))
        reserved = sum((cost for cost in lost if cost is not None), Decimal(0))
        expected = billed - hidden + reserved
        if self.spent != expected:
            found.append(
                f"spent {self.spent}; the vendor billed {billed}, {hidden} of it for answers that were lost, "
                f"and {reserved} is reserved: {expected}"
            )
        return found


def _bill(entry: Entry) -> Decimal:
    return Decimal(entry.cost or 0)


def _named(what: str, keys: Iterable[str]) -> list[str]:
    found = sorted(keys)
    return [f"{len(found)} {what}: {', '.join(found[:NAMED])}"] if found else []


def two_books(project: Project, journal: Path | None = None) -> TwoBooks:
    """Read both; `journal` is the project's `journal.jsonl` if not given. The vendor must be idle."""
    entries = read_journal(project.folder / "journal.jsonl" if journal is None else journal)
    ledger = {
        key: LedgerCall(outcome, code, status, billed, request_id, (sent, got, cached), cost)
        for key, outcome, code, status, billed, request_id, sent, got, cached, cost in project.rows(
            "SELECT concat_ws('.', attempt_id, task_id, pass_number), outcome, code, http_status, billed,"
            " request_id, coalesce(input_tokens, 0), coalesce(output_tokens, 0), coalesce(cached_tokens, 0),"
            " cost FROM assay.calls"
        )
    }
    ((spent, spent_calls),) = project.rows("SELECT sum(cost), sum(calls)::int8 FROM assay.spend")
    return TwoBooks(
        tuple((entry.idempotency_key or "(none)", entry) for entry in entries), ledger,
        frozenset(key for (key,) in project.rows(
            "SELECT concat_ws('.', attempt_id, task_id) FROM assay.task_history"
            " WHERE move IN ('claim', 'take_over')")),
        spent, spent_calls, project.one("SELECT DISTINCT call_reserve FROM assay.pipeline_versions"),
    )  # fmt: skip
