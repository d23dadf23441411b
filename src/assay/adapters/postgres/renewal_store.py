"""Lease renewal: synchronous, on a connection of its own, for a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import psycopg
from psycopg.rows import tuple_row

from assay.adapters.postgres.owner_lease import OwnerLease
from assay.adapters.postgres.queries import queries
from assay.adapters.postgres.session import columns, hang_up, prepare_threshold, startup_options
from assay.ports import HeldLease

# Attempts that are remembered beyond those held, before the list is cleaned.
_ADOPTED_KEPT: Final = 10_000

_Connection = psycopg.Connection[tuple[Any, ...]]


class RenewalStore:
    """Renews one worker's lease. Connects when first needed and again after a failure."""

    def __init__(self, url: str, *, lease: OwnerLease, lease_seconds: float) -> None:
        self._url = url
        self._owner = lease
        self._lease = lease_seconds
        self._sql = queries("claim")
        # Attempts that go on under another lease than they were claimed under.
        self._adopted: dict[UUID, int] = {}
        self._connection: _Connection | None = None

    def renew(self, leases: Sequence[HeldLease]) -> set[UUID]:
        """Extend the lease of all that is held; the attempts that are still ours come back.

        One row is written, however many there are. Where somebody has ended the lease, every task is looked
        at: those that nobody took over go on under a new one. So is what was claimed under another lease than
        the present one: a claim that committed while a new lease was started. Raises `ConnectionError` when
        the database did not answer in time; call again.
        """
        try:
            if self._connection is None:
                self._connection = self._connect()
            return self._bounded(self._connection, leases)
        except psycopg.Error as error:
            self.close()
            raise ConnectionError(type(error).__name__) from None

    def _bounded(self, connection: _Connection, leases: Sequence[HeldLease]) -> set[UUID]:
        # The server's time limit does not help when its answer is swallowed on the way.
        timer = threading.Timer(self._limit, hang_up, (connection,))
        timer.start()
        try:
            terms = {"lease_id": self._owner.lease_id, "lease_seconds": self._lease}
            alive = connection.execute(self._sql["renew_lease"], terms).fetchone() is not None
            strangers = [each for each in leases if not alive or self._lease_of(each) != self._owner.lease_id]
            if not strangers:
                return {each.attempt_id for each in leases}
            ours = self._adopt(connection, strangers, new=not alive)
        finally:
            timer.cancel()
        lost = {each.attempt_id for each in strangers} - ours
        self._adopted |= dict.fromkeys(ours, self._owner.lease_id or 0)
        if len(self._adopted) > len(leases) + _ADOPTED_KEPT:
            held = {each.attempt_id for each in leases}
            self._adopted = {attempt: lease for attempt, lease in self._adopted.items() if attempt in held}
        return {each.attempt_id for each in leases} - lost

    def _lease_of(self, held: HeldLease) -> int | None:
        return self._adopted.get(held.attempt_id, held.lease_id)

    def _adopt(self, connection: _Connection, leases: Sequence[HeldLease], *, new: bool) -> set[UUID]:
        terms: dict[str, Any] = {"actor": self._owner.owner, "lease_seconds": self._lease}
        with connection.transaction():
            terms["lease_id"] = self._owner.lease_id
            if new:
                started = connection.execute(self._sql["start_lease"], terms).fetchone()
                if started is None:
                    raise psycopg.DataError("no lease was started")
                terms["lease_id"] = started[0]
            held = columns([each[:2] for each in leases], ("task_ids", "attempt_ids"))
            rows = connection.execute(self._sql["adopt_tasks"], held | terms).fetchall()
            by_version: dict[int, list[int]] = {}
            for task_id, _, version_id in rows:
                by_version.setdefault(version_id, []).append(task_id)
            for version_id, task_ids in by_version.items():
                batch = terms | {"version_id": version_id, "task_ids": task_ids}
                connection.execute(self._sql["claim_batch"], batch)
        self._owner.lease_id = terms["lease_id"]
        return {attempt_id for _, attempt_id, _ in rows}

    @property
    def _limit(self) -> float:
        """Seconds. A renewal that hangs is worth nothing: within a third of the lease it is tried again."""
        return max(self._lease / 3, 0.1)

    def _connect(self) -> _Connection:
        return psycopg.connect(
            self._url,
            autocommit=True,
            row_factory=tuple_row,
            application_name="assay renewal",
            connect_timeout=max(int(self._lease / 3), 2),
            prepare_threshold=prepare_threshold(),
            options=startup_options(f"-c statement_timeout={int(self._limit * 1000)}"),
        )

    def close(self) -> None:
        """Drop the connection; the next renewal makes a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
