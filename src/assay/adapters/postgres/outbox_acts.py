"""What people do to the outbox: look at refused events, park one, drop old receipts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import psycopg
from psycopg import errors
from psycopg.rows import TupleRow, class_row, tuple_row

from assay.adapters.postgres.queries import queries
from assay.domain.failures import AssayError


@dataclass(frozen=True, slots=True)
class BlockedEvent:
    """An event that the sink refuses; `behind` later ones of its aggregate wait for it."""

    event_id: UUID
    aggregate_kind: str
    aggregate_id: str
    kind: str
    revision: int
    reason: str
    tries: int
    first_failed_at: datetime
    last_failed_at: datetime
    not_before: datetime
    behind: int


class OutboxActs:
    """Acts on the outbox of the database at `url`."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._sql = queries("outbox")

    def blocked(self, most: int = 1000) -> list[BlockedEvent]:
        """Events that the sink refuses, the longest first."""
        with self._connect() as connection, connection.cursor(row_factory=class_row(BlockedEvent)) as cursor:
            return cursor.execute(self._sql["outbox_blocked"], {"most": most}).fetchall()

    def park(self, event_id: UUID, *, reason: str, actor: str) -> bool:
        """Take a refused event out of the way, for good; False where it is not one of those."""
        terms = {"event_id": event_id, "reason": reason, "actor": actor}
        with self._connect() as connection:
            return connection.execute(self._sql["outbox_park"], terms).fetchone() is not None

    def drop_receipts(self, *, older_than_days: float, actor: str) -> int:
        """Drop the receipts of whole days (UTC) that ended so long ago; how many days went.

        Raises `AssayError` while somebody reads them.
        """
        terms = {"seconds": older_than_days * 86_400, "actor": actor}
        try:
            with self._connect() as connection:
                connection.execute(self._sql["outbox_wait_briefly"])
                row = connection.execute(self._sql["outbox_drop_receipts"], terms).fetchone()
        except errors.LockNotAvailable:
            raise AssayError(
                "Receipts are being read just now (an audit, a backup); nothing was dropped: try again later."
            ) from None
        return int(row[0]) if row else 0

    def _connect(self) -> psycopg.Connection[TupleRow]:
        return psycopg.connect(self._url, row_factory=tuple_row, application_name="assay publish")
