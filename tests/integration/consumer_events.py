"""Events for a consumer, and what it does with them in its own database."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import psycopg
from psycopg.rows import TupleRow

from assay.consumer import ConsumedEvent, Inbox

Db = psycopg.Connection[TupleRow]

_TABLES: Final = """
CREATE TABLE consumed (aggregate text PRIMARY KEY, epoch int NOT NULL, revision int NOT NULL);
CREATE TABLE effects (event_id uuid NOT NULL, kind text NOT NULL);
"""


def told(
    aggregate: str, revision: int, kind: str = "completed", epoch: int = 0, number: int = 0
) -> ConsumedEvent:
    """An event; the same arguments give the same one. `number` tells notes of one revision apart."""
    name = f"{aggregate}/{kind}/{revision}/{epoch}/{number}"
    return ConsumedEvent(
        event_id=uuid.uuid5(uuid.NAMESPACE_OID, name), kind=kind, schema=1, aggregate_kind="result",
        aggregate_id=aggregate, revision=revision, epoch=epoch, occurred_at=datetime(2026, 1, 1, tzinfo=UTC),
        data={},
    )  # fmt: skip


def make_tables(db: Db) -> None:
    """The consumer's own tables, and the inbox beside them."""
    db.execute(_TABLES)
    Inbox.create_table(db)


def apply(db: Db, event: ConsumedEvent) -> None:
    """The effect of an event that was accepted: the result as it tells, and a line in a book of effects."""
    db.execute("INSERT INTO effects VALUES (%s, %s)", (event.event_id, event.kind))
    if not event.is_note:
        db.execute(
            "INSERT INTO consumed VALUES (%s, %s, %s) ON CONFLICT (aggregate) DO UPDATE SET "
            "epoch = excluded.epoch, revision = excluded.revision",
            (event.aggregate_id, event.epoch, event.revision),
        )


def results(db: Db) -> dict[str, tuple[int, int]]:
    """(epoch, revision) by aggregate, as the consumer has it."""
    rows = db.execute("SELECT aggregate, epoch, revision FROM consumed").fetchall()
    return {aggregate: (epoch, revision) for aggregate, epoch, revision in rows}


def newest(events: Sequence[ConsumedEvent]) -> dict[str, tuple[int, int]]:
    """(epoch, revision) by aggregate, as it has to be once all of these have come."""
    found: dict[str, tuple[int, int]] = {}
    for event in events:
        if not event.is_note:
            place = (event.epoch, event.revision)
            found[event.aggregate_id] = max(found.get(event.aggregate_id, place), place)
    return found


def twice(db: Db) -> int:
    """Events whose effect is there more than once."""
    row = db.execute(
        "SELECT count(*) FROM (SELECT FROM effects GROUP BY event_id HAVING count(*) > 1) AS doubled"
    ).fetchone()
    assert row is not None
    return int(row[0])


def notes(db: Db) -> set[uuid.UUID]:
    """Notes whose effect is there."""
    return {row[0] for row in db.execute("SELECT event_id FROM effects WHERE kind = 'superseded'")}
