"""What happens to a pipeline version while it runs: stops, and models that its vendor reports."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from psycopg.rows import TupleRow

from assay.adapters.postgres.finish_store import RELEASE_LOCKS
from assay.adapters.postgres.queries import queries
from assay.adapters.postgres.session import Connection, Pool, transact

# The code of a stop that a person asked for; failures stop under their own.
STOPPED_BY_PERSON: Final = "stopped_by_person"
# The reason of a freeze because another model answered.
MODEL_CHANGED: Final = "model_changed"


@dataclass(frozen=True, slots=True)
class VersionStop:
    """What holds a version: nothing is claimed for it until somebody clears the stop."""

    stop_id: int
    code: str
    http_status: int | None
    reason: str | None
    stopped_at: datetime
    stopped_by: str


class VersionEvents:
    """A worker's side of it (`actor`), for one pipeline version."""

    def __init__(self, pool: Pool, *, version_id: int, actor: str) -> None:
        self._pool = pool
        self._version = {"version_id": version_id}
        self._actor = actor
        self._sql = queries("version_events")
        self._freeze_sql = queries("finish")

    async def stopped(self) -> VersionStop | None:
        """The open stop; None while the version may run. One look at an index: ask once a second."""
        rows = await transact(self._pool, lambda c: self._all(c, "version_open_stop", {}))
        return VersionStop(*rows[0]) if rows else None

    async def stop(self, code: str, http_status: int | None) -> bool:
        """Stop the version for all its workers; False when it was stopped already."""
        terms = {"code": code, "http_status": http_status, "reason": None, "actor": self._actor}
        return bool(await transact(self._pool, lambda c: self._all(c, "version_stop", terms)))

    async def note_model(self, model: str, request_id: str | None = None) -> bool:
        """The vendor reported this model; True when that is a change, told once per model.

        A model other than the version's first freezes promotion before this returns, unless a person has
        approved of it: await it before the answer is finished, so that no label of an unproven model is
        accepted. To be asked when a process meets a model for the first time.
        """
        terms = {"model": model, "request_id": request_id, "actor": self._actor}
        return await transact(self._pool, lambda c: self._note_model(c, terms))

    async def _note_model(self, connection: Connection, terms: dict[str, Any]) -> bool:
        known = await connection.execute(self._sql["version_model_known"], self._version | terms)
        if known.rowcount > 0:
            return False
        await connection.execute(
            self._freeze_sql["freeze_lock_version"], {"lock_class": RELEASE_LOCKS, **self._version}
        )
        ((baseline, new, approved),) = await self._all(connection, "version_model_note", terms)
        if not new or baseline is None:
            return False
        detail = {"old": baseline, "new": terms["model"], "approved": approved}
        await self._log(connection, MODEL_CHANGED, detail)
        if not approved:
            frozen = await connection.execute(
                self._freeze_sql["freeze_version"],
                {"reason": MODEL_CHANGED, "actor": self._actor, **self._version},
            )
            if frozen.rowcount > 0:
                await self._log(connection, "frozen", {"reason": MODEL_CHANGED})
        return True

    async def _log(self, connection: Connection, kind: str, detail: dict[str, Any]) -> None:
        terms = {"kind": kind, "detail": json.dumps(detail), "actor": self._actor}
        await connection.execute(self._sql["version_log"], self._version | terms)

    async def _all(self, connection: Connection, name: str, terms: dict[str, Any]) -> list[TupleRow]:
        cursor = await connection.execute(self._sql[name], self._version | terms)
        return await cursor.fetchall()
