"""Two books about the same calls: what the vendor journalled, and what the product's ledger says of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from labelling_project import Project

UNKNOWN = "outcome_unknown"


@dataclass(frozen=True, slots=True)
class Books:
    """`journalled` counts the vendor's calls by idempotency key (attempt.task.pass); `ledger` is outcome by
    the same key; `attempts` are the leases (attempt.task) that the history knows."""

    journalled: Counter[str]
    ledger: Mapping[str, str]
    attempts: frozenset[str]

    @property
    def lost(self) -> set[str]:
        """Calls that reached the vendor and whose answer nobody kept."""
        return {key for key in self.journalled if self.ledger.get(key) == UNKNOWN}

    def discrepancies(self, *, most_lost: int) -> list[str]:
        """Where the books do not agree; `most_lost` is kills times calls in flight."""
        found = [f"{key} was sent {count} times" for key, count in self.journalled.items() if count > 1]
        found += [
            f"{key} belongs to no attempt"
            for key in self.journalled
            if key.rpartition(".")[0] not in self.attempts
        ]
        found += [f"{key} is not in the ledger" for key in self.journalled if key not in self.ledger]
        found += [
            f"{key} is in the ledger as {outcome} and never reached the vendor"
            for key, outcome in self.ledger.items()
            if outcome != UNKNOWN and key not in self.journalled
        ]
        if len(self.lost) > most_lost:
            found.append(f"{len(self.lost)} calls were lost, at most {most_lost} were in flight")
        return found


def books(project: Project, journal: Path) -> Books:
    """Read both. The vendor must be idle."""
    entries = [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()]
    return Books(
        Counter(entry["idempotency_key"] for entry in entries),
        dict(
            project.rows("SELECT concat_ws('.', attempt_id, task_id, pass_number), outcome FROM assay.calls")
        ),
        frozenset(
            key
            for (key,) in project.rows(
                "SELECT concat_ws('.', attempt_id, task_id) FROM assay.task_history"
                " WHERE move IN ('claim', 'take_over')"
            )
        ),
    )
