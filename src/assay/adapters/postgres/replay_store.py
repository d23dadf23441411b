"""Fixes and replays as people plan, read and stop them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Final

import psycopg
from psycopg.rows import TupleRow, tuple_row

from assay.adapters.postgres.queries import queries
from assay.adapters.postgres.reading import Row, reading, rows
from assay.domain.failures import ConfigurationError
from assay.domain.replays import MOST_REPLAYS, FixKind, ReplayState, Stage, stage_of

_MOST_LISTED: Final = 1000


@dataclass(frozen=True, slots=True)
class Selection:
    """Which dead letters a plan takes: all that match, up to `limit`. None: any."""

    codes: tuple[str, ...] | None = None
    path: str | None = None
    source: str | None = None
    customer: str | None = None
    document_type: str | None = None
    owner: str | None = None
    fingerprint: str | None = None
    ids: tuple[int, ...] | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class NewFix:
    """A fix as it is recorded. `from_version` is the id of the version that failed, `to_version` of the one
    that the fix has made, if it has."""

    name: str
    kind: FixKind
    description: str
    author: str
    from_version: int
    to_version: int | None = None
    link: str | None = None


@dataclass(frozen=True, slots=True)
class Pacing:
    """`sample`: items that settle before the rest begins. `stop_loss`: the share of judged items that may
    fail. `per_minute`: items let out a minute at most; None for as fast as they go."""

    sample: int
    stop_loss: float
    per_minute: float | None = None


class ReplayStore:
    """Fixes and replays of the database at `url`."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._sql = queries("replays")

    def record_fix(self, fix: NewFix) -> int:
        """Record what mended the cause; its number."""
        terms = {
            "name": fix.name, "kind": fix.kind.value, "description": fix.description, "author": fix.author,
            "from_version": fix.from_version, "to_version": fix.to_version, "link": fix.link,
        }  # fmt: skip
        with self._connect() as connection:
            ((number,),) = connection.execute(self._sql["fix_record"], terms).fetchall()
        return int(number)

    def fixes(self, *, fix_id: int | None = None, name: str | None = None) -> list[Row]:
        """Fixes, newest first."""
        with reading(self._url) as connection:
            terms = {"fix_id": fix_id, "name": name, "most": _MOST_LISTED}
            return rows(connection, self._sql["fix_list"], terms)

    def plan(
        self,
        fix_id: int,
        selection: Selection,
        pacing: Pacing,
        *,
        actor: str,
        reason: str,
        call: bool = False,
    ) -> int:
        """Select dead letters for a fix, in one transaction; the replay's number. Nothing runs yet.

        `call`: ask the model anew, even where responses are kept that the fix could do with. Raises
        `ConfigurationError` where there is no such fix, or nothing matches.
        """
        with self._connect() as connection:
            found = connection.execute(self._sql["fix_of"], {"fix_id": fix_id}).fetchone()
            if found is None:
                raise ConfigurationError(f"There is no fix {fix_id}; `assay fix list` shows them.")
            kind, name, from_version, to_version, _ = found
            ((kept,),) = connection.execute(self._sql["replay_kept"], {"version_id": from_version}).fetchall()
            stage = stage_of(FixKind(kind), kept=kept and not call)
            chosen = {key: value for key, value in asdict(selection).items() if value is not None}
            terms = {
                "fix_id": fix_id, "stage": stage.value, "sample": pacing.sample,
                "stop_loss": pacing.stop_loss,
                "per_minute": pacing.per_minute, "selection": json.dumps(chosen), "actor": actor,
            }  # fmt: skip
            ((replay_id,),) = connection.execute(self._sql["replay_plan"], terms).fetchall()
            chosen_by: dict[str, object] = {
                "replay_id": replay_id, "name": name, "version_id": from_version, "to_version": to_version,
                "stage": stage.value, "most_replays": MOST_REPLAYS, **asdict(selection),
                "codes": _array(selection.codes), "ids": _array(selection.ids),
            }  # fmt: skip
            if connection.execute(self._sql["replay_select"], chosen_by).rowcount < 1:
                raise ConfigurationError(
                    "No open dead letter matches that is not in another replay; `assay dlq list` shows them."
                )
            act = {"replay_id": replay_id, "kind": "planned", "actor": actor, "reason": reason}
            connection.execute(self._sql["replay_act"], act)
        return int(replay_id)

    def replays(self, replay_id: int | None = None) -> list[Row]:
        """Replays with their counts, newest first."""
        with reading(self._url) as connection:
            terms = {"replay_id": replay_id, "most": _MOST_LISTED}
            return rows(connection, self._sql["replay_list"], terms)

    def one(self, replay_id: int) -> Row:
        """A replay with its counts. Raises `ConfigurationError` where there is none."""
        found = self.replays(replay_id)
        if not found:
            raise ConfigurationError(f"There is no replay {replay_id}; `assay replay list` shows them.")
        return found[0]

    def barred(self, replay_id: int) -> list[Row]:
        """Why items are barred, with counts."""
        return self._read("replay_barred", replay_id)

    def report(self, replay_id: int) -> list[Row]:
        """What became of the items, by the code they had, with the calls and cost that it took."""
        return self._read("replay_report", replay_id)

    def history(self, replay_id: int) -> list[Row]:
        """What was done with it: `kind`, `at`, `actor`, `reason`."""
        return self._read("replay_history", replay_id)

    def expected(self, fix_id: int, stage: Stage, items: int) -> Row:
        """Calls and cost to expect, from what annotations of the version have taken; None: not known."""
        if stage is Stage.VALIDATE:
            return {"calls": 0, "cost": 0}
        with reading(self._url) as connection:
            fix = connection.execute(self._sql["fix_of"], {"fix_id": fix_id}).fetchone()
            version = None if fix is None else fix[2]
            found = rows(connection, self._sql["replay_expected"], {"version_id": version})
        calls, cost = found[0]["calls"], found[0]["cost"]
        return {
            "calls": items if not isinstance(calls, float) else round(calls * items),
            "cost": None if cost is None else round(float(str(cost)) * items, 6),
        }

    def move(self, replay_id: int, to: ReplayState, act: str, *, actor: str, reason: str) -> bool:
        """Pause, resume or stop; whether that changed anything. What is out already runs on.

        Raises `ConfigurationError` where there is no such replay.
        """
        self.one(replay_id)
        terms = {"replay_id": replay_id, "state": to.value, "from_states": _FROM[act]}
        with self._connect() as connection:
            if connection.execute(self._sql["replay_move"], terms).fetchone() is None:
                return False
            if to is ReplayState.STOPPED:
                connection.execute(self._sql["replay_end_waiting"], {"replay_id": replay_id})
            written = {"replay_id": replay_id, "kind": act, "actor": actor, "reason": reason}
            connection.execute(self._sql["replay_act"], written)
        return True

    def _read(self, name: str, replay_id: int) -> list[Row]:
        with reading(self._url) as connection:
            return rows(connection, self._sql[name], {"replay_id": replay_id})

    def _connect(self) -> psycopg.Connection[TupleRow]:
        return psycopg.connect(self._url, row_factory=tuple_row, application_name="assay replay")


_FROM: Final = {
    "paused": ["planned", "running"],
    "resumed": ["paused"],
    "stopped": ["planned", "running", "paused"],
}


def _array(values: tuple[object, ...] | None) -> list[object] | None:
    return None if values is None else list(values)
