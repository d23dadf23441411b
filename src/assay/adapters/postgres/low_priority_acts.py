"""What people do about records of low priority: pause them, resume them."""

from __future__ import annotations

from typing import Final

import psycopg
from psycopg.rows import TupleRow, tuple_row

from assay.adapters.postgres.queries import queries
from assay.domain.failures import ConfigurationError

_ACT_LOCKS: Final = 1668508014


class LowPriorityActs:
    """Acts on the pipelines of the database at `url`. Workers see them within about a second."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._sql = queries("low_priority")

    def pause(self, name: str, *, reason: str, actor: str) -> tuple[bool, int]:
        """Records of low priority wait from here on; whether that is new, and how many tasks wait already."""
        return self._act("paused", name, reason, actor)

    def resume(self, name: str, *, reason: str, actor: str) -> tuple[bool, int]:
        """They are worked on again; whether that is new, and how many of the tasks that wait are low ones."""
        return self._act("resumed", name, reason, actor)

    def _act(self, kind: str, name: str, reason: str, actor: str) -> tuple[bool, int]:
        terms = {"kind": kind, "name": name, "reason": reason, "actor": actor, "lock_class": _ACT_LOCKS}
        with self._connect() as connection:
            ((waiting,),) = connection.execute(self._sql["low_waiting"], terms).fetchall()
            if waiting is None:
                raise ConfigurationError(f"There is no pipeline {name!r}; `assay pipeline list` shows all.")
            connection.execute(self._sql["low_lock"], terms)
            changed = connection.execute(self._sql["low_act"], terms).fetchone() is not None
        return changed, int(waiting)

    def _connect(self) -> psycopg.Connection[TupleRow]:
        return psycopg.connect(self._url, row_factory=tuple_row, application_name="assay pipeline")
