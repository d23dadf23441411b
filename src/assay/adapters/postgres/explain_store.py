"""The whole history of one record, as far as it may be shown: no text, no sensitive fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import psycopg
from psycopg.rows import TupleRow

from assay.adapters.postgres.queries import queries
from assay.adapters.postgres.reading import Row, grouped, reading, rows


@dataclass(frozen=True, slots=True)
class AnnotationHistory:
    """One annotation: how it stands (`task`), and everything that happened to it, in order.

    `holds`: stops, freezes and changed models of its version while it was at work, the latest first. A dead
    letter is its envelope; under `facts` it has what a replay has to know.
    """

    task: Row
    moves: list[Row]
    calls: list[Row]
    dead_letters: list[Row]
    review_items: list[Row]
    holds: list[Row]


@dataclass(frozen=True, slots=True)
class RecordHistory:
    """Everything that is known about one record id. `near`: ids close to one that is not there."""

    record_id: str
    inputs: list[Row] = field(default_factory=list)
    duplicates: list[Row] = field(default_factory=list)
    annotations: list[AnnotationHistory] = field(default_factory=list)
    results: list[Row] = field(default_factory=list)
    isolated: list[Row] = field(default_factory=list)
    events: list[Row] = field(default_factory=list)
    near: tuple[str, ...] = ()

    @property
    def known(self) -> bool:
        """Whether anything has this id or stands at this place."""
        return bool(self.inputs or self.annotations or self.isolated)


class ExplainStore:
    """Reads histories, each at one moment."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._sql = queries("explain")
        self._facts = queries("dead_letters")["letters_facts"]

    def explain(
        self, record_id: str, *, input_version: int | None = None, name: str | None = None
    ) -> RecordHistory:
        """What is known of a record id, or of `SOURCE:ROW` where that names an isolated piece."""
        source, row = _place(record_id)
        parameters = {"record_id": record_id, "input_version": input_version, "name": name,
                      "source": source, "row": row}  # fmt: skip
        with reading(self._url) as connection:
            inputs = self._rows(connection, "explain_inputs", parameters)
            tasks = self._rows(connection, "explain_annotations", parameters)
            isolated = self._rows(connection, "explain_isolated", parameters)
            if not inputs and not tasks and not isolated:
                return RecordHistory(record_id, near=self._near(connection, parameters))
            names = sorted({str(task["pipeline"]) for task in tasks})
            return RecordHistory(
                record_id,
                inputs,
                self._rows(connection, "explain_duplicates", parameters),
                self._annotations(connection, tasks),
                self._rows(connection, "explain_results", parameters | {"names": names}),
                isolated,
                self._events(connection, record_id, names, isolated),
            )

    def _annotations(
        self, connection: psycopg.Connection[TupleRow], tasks: list[Row]
    ) -> list[AnnotationHistory]:
        task_ids = {"task_ids": [task["task_id"] for task in tasks]}
        moves, calls, reviews, holds = (
            grouped(self._rows(connection, query, task_ids), "task_id")
            for query in ("explain_moves", "explain_calls", "explain_reviews", "explain_holds")
        )
        dead_letters = grouped(self._dead_letters(connection, task_ids), "task_id")
        return [
            AnnotationHistory(
                task,
                moves.get(task["task_id"], []),
                calls.get(task["task_id"], []),
                dead_letters.get(task["task_id"], []),
                reviews.get(task["task_id"], []),
                holds.get(task["task_id"], []),
            )
            for task in tasks
        ]

    def _dead_letters(
        self, connection: psycopg.Connection[TupleRow], task_ids: Mapping[str, object]
    ) -> list[Row]:
        found = self._rows(connection, "explain_dead_letters", task_ids)
        ids = {"ids": [row["dead_letter_id"] for row in found]}
        facts = {row["dead_letter_id"]: row for row in rows(connection, self._facts, ids)}
        return [row | {"facts": facts[row["dead_letter_id"]]} for row in found]

    def _events(
        self, connection: psycopg.Connection[TupleRow], record_id: str, names: list[str], isolated: list[Row]
    ) -> list[Row]:
        parameters = {
            "result_ids": [f"{name}/{record_id}" for name in names],
            "isolated_ids": [str(row["isolated_id"]) for row in isolated],
        }
        return self._rows(connection, "explain_events", parameters)

    def _near(
        self, connection: psycopg.Connection[TupleRow], parameters: Mapping[str, object]
    ) -> tuple[str, ...]:
        found = self._rows(connection, "explain_at_line", parameters)
        found = found or self._rows(connection, "explain_neighbours", parameters)
        return tuple(str(row["record_id"]) for row in found)

    def _rows(
        self, connection: psycopg.Connection[TupleRow], query: str, parameters: Mapping[str, object]
    ) -> list[Row]:
        return rows(connection, self._sql[query], parameters)


def _place(record_id: str) -> tuple[str | None, int | None]:
    """Source and row of `SOURCE:ROW`; None for another id."""
    source, colon, row = record_id.rpartition(":")
    if not colon or not source or not (row.isascii() and row.isdecimal()) or len(row) > 18:
        return None, None
    return source, int(row)
