"""The calls of one version: what became of each pass, and how long they took."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from assay.adapters.postgres.queries import queries
from assay.adapters.postgres.reading import reading


class PassOutcome(NamedTuple):
    """So many calls of a pass (1, or 2 for a correction) ended so; `code` is why they were refused."""

    pass_number: int
    outcome: str
    code: str | None
    calls: int


@dataclass(frozen=True, slots=True)
class CallFigures:
    """The calls of a version at one moment. Times are milliseconds of answered calls, None without any."""

    outcomes: tuple[PassOutcome, ...]
    answered: int
    median_ms: float | None
    p95_ms: float | None
    output_tokens: int


class CallStore:
    """Reads the ledger of calls, whole: for figures at the end of a run, not for a hot path."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._sql = queries("calls")

    def figures(self, version_id: int) -> CallFigures:
        """What the ledger says of one version's calls."""
        of = {"version_id": version_id}
        with reading(self._url) as connection:
            found = connection.execute(self._sql["call_outcomes"], of).fetchall()
            (times,) = connection.execute(self._sql["call_times"], of).fetchall()
        return CallFigures(tuple(PassOutcome(*row) for row in found), *times)
