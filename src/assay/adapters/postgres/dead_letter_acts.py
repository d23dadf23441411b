"""What people do with dead letters: take them on, give them back, close them, say when they are due.

Acts are kept with who, when and why, and written in the transaction of the move. Each transaction holds the
tasks in key order before their dead letters, as finishes do: of an act and a replay at once one sees what the
other has done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import psycopg
from psycopg.rows import TupleRow, tuple_row

from assay.adapters.postgres.dead_letter_store import DeadLetterStore, unknown
from assay.adapters.postgres.queries import queries
from assay.domain.dead_letters import LetterFilter, LetterState
from assay.domain.failures import ConfigurationError
from assay.domain.lifecycle import TaskState

_AT_ONCE: Final = 200


@dataclass(frozen=True, slots=True)
class Acted:
    """What an act came to: how many it changed, how many were ended or as wanted before, and how many are
    being replayed just now and stay as they are."""

    changed: int = 0
    as_before: int = 0
    replaying: int = 0

    def __add__(self, other: Acted) -> Acted:
        return Acted(
            self.changed + other.changed, self.as_before + other.as_before, self.replaying + other.replaying
        )


@dataclass(frozen=True, slots=True)
class Terms:
    """Seconds until dead letters of a pipeline are due, and until they expire; None: the default, never."""

    due_seconds: float | None = None
    expire_seconds: float | None = None


class DeadLetterActs:
    """Acts on the dead letters of the database at `url`, at most 200 in one transaction."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._sql = queries("dead_letters")

    def assign(self, ids: Sequence[int], *, owner: str, actor: str, reason: str | None = None) -> Acted:
        """Somebody takes them on. Raises `ConfigurationError`, with nothing done, for ids that are none."""
        return self._on_ids(ids, lambda page: self._give(page, owner, actor, reason))

    def unassign(self, ids: Sequence[int], *, actor: str, reason: str | None = None) -> Acted:
        """Nobody has them any more."""
        return self._on_ids(ids, lambda page: self._give(page, None, actor, reason))

    def close(self, ids: Sequence[int], *, actor: str, reason: str) -> Acted:
        """Nothing will come of them: their tasks are rejected. Again, it changes nothing."""
        return self._on_ids(ids, lambda page: self._close(page, actor, reason))

    def assign_all(
        self, which: LetterFilter, *, up_to: int, owner: str | None, actor: str, reason: str | None = None
    ) -> Acted:
        """The same for all that match, up to the id `up_to`; `owner` None: nobody has them."""
        done = Acted()
        for page in self._pages(which, up_to):
            done += self._give(page, owner, actor, reason)
        return done

    def close_all(self, which: LetterFilter, *, up_to: int, actor: str, reason: str) -> Acted:
        """Close all that match, up to the id `up_to`. May be interrupted and run again."""
        done = Acted()
        for page in self._pages(which, up_to):
            done += self._close(page, actor, reason)
        return done

    def terms(self, pipeline: str) -> Terms:
        """When dead letters of a pipeline are due and expire."""
        with self._connect() as connection:
            self._known_pipeline(connection, pipeline)
            row = connection.execute(self._sql["letters_terms"], {"pipeline": pipeline}).fetchone()
        return Terms() if row is None else Terms(row[0], row[1])

    def set_terms(self, pipeline: str, terms: Terms, *, actor: str) -> None:
        """For dead letters from here on. Raises `ConfigurationError` for a pipeline that is none."""
        with self._connect() as connection:
            self._known_pipeline(connection, pipeline)
            connection.execute(
                self._sql["letters_set_terms"],
                {"pipeline": pipeline, "due_seconds": terms.due_seconds, "actor": actor,
                 "expire_seconds": terms.expire_seconds},
            )  # fmt: skip

    def _give(self, ids: Sequence[int], owner: str | None, actor: str, reason: str | None) -> Acted:
        with self._connect() as connection:
            held = self._held(connection, ids)
            mine = [each.letter for each in held if each.in_hand and each.owner != owner]
            if mine:
                kind = "unassigned" if owner is None else "assigned"
                act = {"kind": kind, "actor": actor, "reason": reason, "owner": owner}
                connection.execute(self._sql["letters_act"], act | {"ids": mine})
                connection.execute(self._sql["letters_assign"], {"ids": mine, "owner": owner})
        return _acted(held, len(mine))

    def _close(self, ids: Sequence[int], actor: str, reason: str) -> Acted:
        with self._connect() as connection:
            held = self._held(connection, ids)
            mine = [each for each in held if each.in_hand and each.task_state == TaskState.QUARANTINED]
            letters = [each.letter for each in mine]
            if mine:
                act = {"kind": "closed", "actor": actor, "reason": reason, "owner": None}
                connection.execute(self._sql["letters_act"], act | {"ids": letters})
                connection.execute(
                    self._sql["letters_close"],
                    {"ids": letters, "task_ids": [each.task_id for each in mine], "actor": actor,
                     "reason": reason},
                )  # fmt: skip
        return _acted(held, len(mine))

    def _held(self, connection: psycopg.Connection[TupleRow], ids: Sequence[int]) -> list[_Held]:
        """The dead letters as they stand, nobody else's until the transaction ends."""
        terms = {"ids": list(ids)}
        states: dict[int, str] = dict(connection.execute(self._sql["letters_tasks_lock"], terms).fetchall())
        locked = connection.execute(self._sql["letters_lock"], terms).fetchall()
        return [_Held(letter, task, states[task], state, owner) for letter, task, state, owner in locked]

    def _on_ids(self, ids: Sequence[int], act: Callable[[Sequence[int]], Acted]) -> Acted:
        wanted = sorted(set(ids))
        with self._connect() as connection:
            found = connection.execute(self._sql["letters_known"], {"ids": wanted}).fetchall()
        if missing := sorted(set(wanted) - {row[0] for row in found}):
            raise unknown(missing)
        done = Acted()
        for start in range(0, len(wanted), _AT_ONCE):
            done += act(wanted[start : start + _AT_ONCE])
        return done

    def _pages(self, which: LetterFilter, up_to: int) -> Iterator[list[int]]:
        store, after = DeadLetterStore(self._url), 0
        while page := store.ids(which, after=after, up_to=up_to, most=_AT_ONCE):
            yield page
            after = page[-1]

    def _known_pipeline(self, connection: psycopg.Connection[TupleRow], pipeline: str) -> None:
        if connection.execute(self._sql["letters_versions"], {"pipeline": pipeline}).fetchone() is None:
            raise ConfigurationError(f"There is no pipeline {pipeline!r}; `assay pipeline list` shows all.")

    def _connect(self) -> psycopg.Connection[TupleRow]:
        return psycopg.connect(self._url, row_factory=tuple_row, application_name="assay dlq")


@dataclass(frozen=True, slots=True)
class _Held:
    letter: int
    task_id: int
    task_state: str
    state: str
    owner: str | None

    @property
    def in_hand(self) -> bool:
        """Whether a person may act on it: it waits, and no replay has it."""
        return self.state in (LetterState.OPEN, LetterState.ASSIGNED)


def _acted(held: Sequence[_Held], changed: int) -> Acted:
    replaying = sum(each.state == LetterState.REPLAYING for each in held)
    return Acted(changed, len(held) - changed - replaying, replaying)
