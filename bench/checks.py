"""What must be true of a database after a run of the product, or the measurement says nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from assay.adapters.postgres.audit_store import AuditStore
from bench.server import Database

_COUNTS: Final = {
    "tasks": "SELECT count(*) FROM assay.annotation_tasks",
    "accepted": "SELECT count(*) FROM assay.annotation_tasks WHERE state = 'auto_candidate'",
    "results": "SELECT count(*) FROM assay.results",
    "events": "SELECT count(*) FROM assay.known_events",
    "inputs": "SELECT count(*) FROM assay.inputs",
    "outputs": "SELECT count(*) FROM assay.annotation_outputs",
    "texts": "SELECT count(*) FROM assay_vault.texts",
    "labels": "SELECT count(*) FROM assay_vault.labels",
    "calls": "SELECT count(*) FROM assay.calls",
    "history": "SELECT count(*) FROM assay.task_history",
}


@dataclass(frozen=True, slots=True)
class Expected:
    """N records were labelled; what was switched off left no rows.

    `accepted` false: the model's confidence varies, so some went to people.
    """

    records: int
    accepted: bool = True
    history: bool = True
    ledger: bool = True


def faults(database: Database, expected: Expected, what: str) -> list[str]:
    """One sentence per count that does not match."""
    wanted = dict.fromkeys(_COUNTS, expected.records)
    wanted["history"] = 2 * expected.records if expected.history else 0
    wanted["calls"] = expected.records if expected.ledger else 0
    if not expected.accepted:
        del wanted["accepted"]
    found = {name: database.count(query) for name, query in _COUNTS.items()}
    return [
        f"{what}: {found[name]} {name}, not {wanted[name]}" for name in wanted if found[name] != wanted[name]
    ]


def broken(database: Database, what: str) -> list[str]:
    """One sentence per invariant that the audit finds broken."""
    report = AuditStore(database.url).audit()
    return [f"{what}: the audit found {each.invariant} broken ({each.count})" for each in report.broken]
