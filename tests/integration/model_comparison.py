"""Everything that the database says about one version, and everything that the model says, in one form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, LiteralString

import psycopg
from psycopg.rows import TupleRow
from task_model import Model

from assay.domain.identity import InputKey

_KEYED: Final[LiteralString] = (
    " JOIN assay.annotation_tasks t USING (task_id) WHERE t.version_id = %(version)s"
)

_QUERIES: Final[Mapping[str, LiteralString]] = {
    "tasks": "SELECT record_id, input_version, state::text, attempt_id, "
    "extract(epoch FROM lease_until - %(start)s)::float8, "
    "extract(epoch FROM not_before - %(start)s)::float8, "
    "attempts, first_pass_code, error_code, review_reason "
    "FROM assay.annotation_tasks WHERE version_id = %(version)s",
    "history": "SELECT t.record_id, t.input_version, "
    "array_agg(h.move::text || ' ' || coalesce(h.attempt_id::text, '-') ORDER BY h.history_id) "
    "FROM assay.task_history h" + _KEYED + " GROUP BY 1, 2",
    "outputs": "SELECT t.record_id, t.input_version, o.attempt_id FROM assay.annotation_outputs o" + _KEYED,
    "ledger": "SELECT attempt_id, pass_number, outcome FROM assay.calls WHERE version_id = %(version)s",
    "results": "SELECT record_id, input_version, revision FROM assay.results WHERE version_id = %(version)s",
    "events": "SELECT t.record_id, e.kind, e.revision, t.input_version FROM assay.outbox_events e" + _KEYED,
    "reviews": "SELECT t.record_id, t.input_version, r.reason, r.state FROM assay.review_items r" + _KEYED,
    "dead letters": "SELECT t.record_id, t.input_version, d.error_code, d.state "
    "FROM assay.dead_letters d" + _KEYED,
    "parked": "SELECT t.record_id, t.input_version, extract(epoch FROM p.due_at - %(start)s)::float8 "
    "FROM assay.parked_tasks p" + _KEYED,
    "batches": "SELECT (SELECT array_agg(t.record_id || ' ' || t.input_version "
    "ORDER BY t.record_id, t.input_version) "
    "FROM assay.annotation_tasks t WHERE t.task_id = ANY (b.task_ids)) "
    "FROM assay.claim_batches b WHERE b.version_id = %(version)s",
}

Account = dict[str, Counter[tuple[object, ...]]]
"""By topic: rows, each as often as it is there."""


def found(db: psycopg.Connection[TupleRow], version_id: int, start: object) -> Account:
    """What the database says; times are seconds after `start`."""
    terms = {"version": version_id, "start": start}
    return {
        topic: Counter(
            tuple(tuple(value) if isinstance(value, list) else value for value in row)
            for row in db.execute(query, terms)
        )
        for topic, query in _QUERIES.items()
    }


def expected(model: Model) -> Account:
    """What the model says."""
    tasks = model.tasks.values()
    rows: dict[str, list[tuple[object, ...]]] = {
        "tasks": [
            (*t.key, t.state.value, t.attempt, t.lease_until, t.not_before, t.attempts, t.first_pass,
             t.error_code, t.review_reason)
            for t in tasks
        ],
        "history": [(*t.key, tuple(f"{move} {by or '-'}" for move, by in t.moves)) for t in tasks],
        "outputs": [(*t.key, t.output) for t in tasks if t.output is not None],
        "ledger": [(*key, outcome.value) for key, outcome in model.ledger.items()],
        "results": [(record_id, *pointer) for record_id, pointer in model.results.items()],
        "events": list(model.events.elements()),
        "reviews": [(*key, *rest) for key, *rest in model.reviews.elements()],
        "dead letters": [(*key, *rest) for key, *rest in model.letters.elements()],
        "parked": [(*t.key, t.due) for t in tasks if t.due is not None],
        "batches": [(tuple(map(_words, sorted(batch))),) for batch in model.batches],
    }  # fmt: skip
    return {topic: Counter(lines) for topic, lines in rows.items()}


def differences(left: Account, right: Account) -> dict[str, tuple[object, object]]:
    """By topic: what stands only left, and only right."""
    return {
        topic: (dict(left[topic] - right[topic]), dict(right[topic] - left[topic]))
        for topic in left
        if left[topic] != right[topic]
    }


def _words(key: InputKey) -> str:
    return f"{key.record_id} {key.input_version}"
