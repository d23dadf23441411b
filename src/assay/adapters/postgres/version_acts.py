"""What people do to a pipeline version: stop and resume it, freeze it, approve of it. Every act is logged."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg.rows import TupleRow, tuple_row

from assay.adapters.postgres.finish_store import RELEASE_LOCKS
from assay.adapters.postgres.queries import queries
from assay.adapters.postgres.reading import Row, reading, rows
from assay.adapters.postgres.version_events import STOPPED_BY_PERSON, VersionStop
from assay.domain.failures import ConfigurationError

# Stages whose labels need a person's approval, which is named after the stage.
_APPROVED_BY_STAGE: Final = frozenset({"unproven", "rolled_back"})
# Digits of a digest that people are shown.
_SHORT: Final = 12
_Connection = psycopg.Connection[TupleRow]


@dataclass(frozen=True, slots=True)
class VersionPage:
    """All that is known about a version besides its tasks; `version` holds its definition too."""

    version: Row
    stops: list[Row]
    models: list[Row]
    approvals: list[Row]
    events: list[Row]


class VersionActs:
    """Synchronous: used by commands and at the start of a run."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._sql = queries("version_events")
        self._freeze_sql = queries("finish")

    def _connect(self) -> _Connection:
        return psycopg.connect(self._url, row_factory=tuple_row)

    def page(self, version_id: int) -> VersionPage:
        """The version's page, at one moment."""
        with reading(self._url) as connection:
            found = {
                name: rows(connection, self._sql[name], {"version_id": version_id})
                for name in ("page_release", "page_stops", "page_models", "page_approvals", "page_events")
            }
        return VersionPage(found["page_release"][0], found["page_stops"], found["page_models"],
                           found["page_approvals"], found["page_events"])  # fmt: skip

    # --- stop and resume ------------------------------------------------------------------------------

    def stop(self, version_id: int, *, reason: str, actor: str) -> bool:
        """Stop the version for all its workers; False when a person had stopped it already.

        A person's stop takes the place of a failure's, which the next run would clear.
        """
        terms = {"version_id": version_id, "code": STOPPED_BY_PERSON, "http_status": None, "reason": reason,
                 "actor": actor}  # fmt: skip
        with self._connect() as connection:
            failed = self._open_stop(connection, version_id)
            if failed is not None and failed.code != STOPPED_BY_PERSON:
                self._clear(connection, version_id, failed, reason, actor)
            return connection.execute(self._sql["version_stop"], terms).fetchone() is not None

    def resume(self, version_id: int, *, reason: str | None, actor: str) -> bool:
        """Clear whatever stops the version; False when nothing did."""
        with self._connect() as connection:
            stop = self._open_stop(connection, version_id)
            return stop is not None and self._clear(connection, version_id, stop, reason, actor)

    def clear_stop(self, version_id: int, actor: str) -> VersionStop | None:
        """A run begins after a failure was mended: the stop that it left is cleared and returned.

        Raises `ConfigurationError` for a stop that a person asked for: only `resume` clears that.
        """
        with self._connect() as connection:
            stop = self._open_stop(connection, version_id)
            if stop is not None and stop.code == STOPPED_BY_PERSON:
                (page,) = rows(connection, self._sql["page_release"], {"version_id": version_id})
                raise ConfigurationError(
                    f"{stop.stopped_by} stopped this version: {stop.reason}. It goes on after "
                    f"`assay pipeline resume {str(page['pipeline_version'])[:_SHORT]} --reason TEXT`."
                )
            if stop is not None:
                self._clear(connection, version_id, stop, "run", actor)
        return stop

    def _open_stop(self, connection: _Connection, version_id: int) -> VersionStop | None:
        row = connection.execute(self._sql["version_open_stop"], {"version_id": version_id}).fetchone()
        return None if row is None else VersionStop(*row)

    def _clear(
        self, connection: _Connection, version_id: int, stop: VersionStop, reason: str | None, actor: str
    ) -> bool:
        terms = {"version_id": version_id, "stop_id": stop.stop_id, "reason": reason, "actor": actor}
        return connection.execute(self._sql["version_clear_stop"], terms).fetchone() is not None

    # --- freeze ---------------------------------------------------------------------------------------

    def freeze(self, version_id: int, *, reason: str, actor: str) -> bool:
        """Stop promotion: once this returns, no task of the version becomes auto_candidate.

        Waits for finishes that hold the version's shared lock; returns False when it was frozen already.
        """
        terms = {"version_id": version_id, "reason": reason, "actor": actor}
        return self._release("freeze_version", "frozen", terms)

    def unfreeze(self, version_id: int, *, reason: str, actor: str) -> bool:
        """Allow promotion again; returns False when it was not frozen."""
        terms = {"version_id": version_id, "reason": reason, "actor": actor}
        return self._release("unfreeze_version", "unfrozen", terms)

    def _release(self, name: str, kind: str, terms: dict[str, Any]) -> bool:
        """Change the release row under the version's lock, and log it where it changed."""
        with self._connect() as connection:
            connection.execute(
                self._freeze_sql["freeze_lock_version"], {"lock_class": RELEASE_LOCKS, **terms}
            )
            if connection.execute(self._freeze_sql[name], terms).fetchone() is None:
                return False
            detail = json.dumps({"reason": terms["reason"]})
            connection.execute(self._sql["version_log"], {**terms, "kind": kind, "detail": detail})
        return True

    # --- approve --------------------------------------------------------------------------------------

    def approve(self, version_id: int, *, reason: str, actor: str, model: str | None = None) -> int:
        """Record an approval: of a model id, or of the version at the stage where it stands.

        Raises `ConfigurationError` for a stage that gates decide about.
        """
        with self._connect() as connection:
            ((stage,),) = connection.execute(self._sql["version_stage"], {"version_id": version_id})
            if model is None and stage not in _APPROVED_BY_STAGE:
                raise ConfigurationError(
                    f"The version's stage is {stage}: its gates decide, there is nothing to approve."
                )
            terms = {"version_id": version_id, "kind": stage if model is None else "model", "model": model,
                     "reason": reason, "actor": actor}  # fmt: skip
            ((approval_id,),) = connection.execute(self._sql["version_approve"], terms)
        return int(approval_id)

    def revoke(self, version_id: int, approval_id: int, *, reason: str, actor: str) -> bool:
        """From now on the approval counts no more; False when there is no such approval in force."""
        terms = {"version_id": version_id, "approval_id": approval_id, "reason": reason, "actor": actor}
        with self._connect() as connection:
            return connection.execute(self._sql["version_revoke"], terms).fetchone() is not None
