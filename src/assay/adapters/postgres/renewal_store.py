"""Lease renewal: synchronous, on a connection of its own, for a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import tuple_row

from assay.adapters.postgres.queries import queries
from assay.adapters.postgres.session import columns, hang_up


class RenewalStore:
    """Connects when first needed and again after a failure."""

    def __init__(self, url: str, *, lease_seconds: float) -> None:
        self._url = url
        self._lease = lease_seconds
        self._sql = queries("claim")["renew"]
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None

    def renew(self, leases: Sequence[tuple[int, UUID]]) -> set[UUID]:
        """Extend leases; the attempts that are still ours come back.

        Raises `ConnectionError` when the database did not answer in time; call again.
        """
        parameters = columns(list(leases), ("task_ids", "attempt_ids")) | {"lease_seconds": self._lease}
        try:
            if self._connection is None:
                self._connection = self._connect()
            rows = self._execute(self._connection, parameters)
        except psycopg.Error as error:
            self.close()
            raise ConnectionError(type(error).__name__) from None
        return {attempt_id for _, attempt_id in rows}

    def _execute(
        self, connection: psycopg.Connection[tuple[Any, ...]], parameters: dict[str, Any]
    ) -> list[tuple[Any, ...]]:
        # The server's time limit does not help when its answer is swallowed on the way.
        timer = threading.Timer(self._limit, hang_up, (connection,))
        timer.start()
        try:
            return connection.execute(self._sql, parameters).fetchall()
        finally:
            timer.cancel()

    @property
    def _limit(self) -> float:
        """Seconds. A renewal that hangs is worth nothing: within a third of the lease it is tried again."""
        return max(self._lease / 3, 0.1)

    def _connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(
            self._url,
            autocommit=True,
            row_factory=tuple_row,
            application_name="assay renewal",
            connect_timeout=max(int(self._lease / 3), 2),
            options=f"-c statement_timeout={int(self._limit * 1000)}",
        )

    def close(self) -> None:
        """Drop the connection; the next renewal makes a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
