"""Reads what a drill has left: the vendor's journal, the training file, both databases, the audit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg

from assay.adapters.postgres.audit_store import AuditStore
from assay.adapters.postgres.reading import reading
from assay.app import open_vault
from assay.cli.drill_stage import (
    ASSAY_KEY,
    JOURNAL,
    PRODUCED,
    SCRIPT_KEY,
    TICKETS,
    TRAINING,
    downstream_of,
    settings_of,
)
from assay.drill.evidence import Audit, Downstream, Evidence, Label, LedgerCall, Task, VendorCall
from assay.drill.statements import statement
from assay.vendor.entries import Entry
from assay.vendor.journal import read_journal
from assay.vendor.limits import account_of

_Rows = list[tuple[Any, ...]]


def collect(folder: Path, url: str) -> Evidence:
    """All of it, when everything has ended."""
    entries = read_journal(folder / JOURNAL)
    with reading(url) as db:
        tables = {name: _rows(db, name) for name in ("tasks", "calls", "messages", "events")}
    ((inputs, known, isolated),) = tables["messages"]
    return Evidence(
        gold={row["id"]: row["category"] for row in _lines(folder / TICKETS)},
        produced=(folder / PRODUCED).read_text("utf-8").split(),
        script_calls=_calls_of(entries, SCRIPT_KEY),
        training=[Label(row["id"], row["category"], row["request_id"]) for row in _lines(folder / TRAINING)],
        assay_calls=_calls_of(entries, ASSAY_KEY),
        tasks=[Task(*row) for row in tables["tasks"]],
        ledger=[LedgerCall(*row) for row in tables["calls"]],
        messages=(inputs, known, isolated),
        events=dict(tables["events"]),
        downstream=_downstream(downstream_of(url)),
        audit=_audit(folder, url),
    )


def _calls_of(entries: Sequence[Entry], key: str) -> list[VendorCall]:
    account = account_of(key)
    return [
        VendorCall(
            each.idempotency_key, each.request_id, each.text_sha256, each.fault, each.status,
            bool(each.wrong), each.billed, Decimal(each.cost or 0),
        )
        for each in entries if each.account == account
    ]  # fmt: skip


def _downstream(url: str) -> Downstream:
    with reading(url) as db:
        deliveries = [(event, applied) for event, applied in _rows(db, "downstream_deliveries")]
        labels = {record: (state, category) for record, state, category in _rows(db, "downstream_labels")}
    return Downstream(deliveries, labels)


def _audit(folder: Path, url: str) -> Audit:
    report = AuditStore(url, open_vault(settings_of(folder))).audit()
    return Audit(report.checked, [f"{each.invariant} broken {each.count} times" for each in report.broken])


def _rows(db: psycopg.Connection[tuple[Any, ...]], name: str) -> _Rows:
    return db.execute(statement(name)).fetchall()


def _lines(path: Path) -> list[dict[str, Any]]:
    """JSON lines. A process that was killed while it wrote has left no half of one: each is one write."""
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
