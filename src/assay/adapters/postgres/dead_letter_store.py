"""Dead letters for people: listed, grouped, looked at, exported. Reads only; nothing of a record's text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, LiteralString

import psycopg
from psycopg.rows import TupleRow

from assay.adapters.postgres.queries import queries
from assay.adapters.postgres.reading import Row, grouped, reading, rows
from assay.adapters.postgres.version_store import VersionStore
from assay.domain.dead_letters import LetterFilter, folded
from assay.domain.failures import ConfigurationError

# Columns that cohorts may be made by; the first ones are what they are made by where nobody says.
DIMENSIONS: Final = (
    "version", "code", "field", "source", "customer", "document_type",
    "pipeline", "class", "kind", "language", "fingerprint", "state", "owner",
)  # fmt: skip
DEFAULT_BY: Final = DIMENSIONS[:6]
_OF_TASKS: Final = ("pipeline", "pipeline_version", "source", "customer", "document_type", "language")
_EXPORTED_AT_ONCE: Final = 500
_Connection = psycopg.Connection[TupleRow]


@dataclass(frozen=True, slots=True)
class LetterPage:
    """One dead letter: its envelope, what a replay has to know, what people did, the calls of its task, the
    replays that it was in."""

    envelope: Row
    facts: Row
    acts: list[Row]
    calls: list[Row]
    replays: list[Row]


@dataclass(frozen=True, slots=True)
class LetterCount:
    """How many dead letters match, by state; `last`: the highest id of them, 0 where there is none."""

    by_state: Mapping[str, int]
    last: int

    @property
    def total(self) -> int:
        return sum(self.by_state.values())


class DeadLetterStore:
    """Reads dead letters of the database at `url`, each report at one moment."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._sql = queries("dead_letters")

    def envelopes(
        self, which: LetterFilter, *, after: int | None = None, most: int = 100, oldest_first: bool = False
    ) -> list[Row]:
        """Envelopes beyond the id `after`, newest first unless it is said otherwise."""
        with reading(self._url) as connection:
            ids = self._ids(connection, self._terms(connection, which), after, most, oldest_first)
            found = {row["dead_letter_id"]: row for row in self._envelopes(connection, ids)}
        return [found[each] for each in ids]

    def page(self, dead_letter_id: int) -> LetterPage:
        """All about one. Raises `ConfigurationError` where there is no such dead letter."""
        ids = {"ids": [dead_letter_id]}
        with reading(self._url) as connection:
            found = self._envelopes(connection, [dead_letter_id])
            if not found:
                raise unknown([dead_letter_id])
            (facts,) = rows(connection, self._sql["letters_facts"], ids)
            acts = rows(connection, self._sql["letters_acts"], ids)
            calls = rows(connection, self._sql["letters_calls"], {"id": dead_letter_id})
            replays = rows(connection, self._sql["letters_replays"], {"id": dead_letter_id})
        done = grouped(acts, "dead_letter_id").get(dead_letter_id, [])
        return LetterPage(found[0], facts, done, calls, replays)

    def cohorts(
        self, which: LetterFilter, by: Sequence[str] = DEFAULT_BY, *, most: int = 100, shares: bool = True
    ) -> list[Row]:
        """Dead letters by `by`, the largest cohorts first.

        With `shares` each has `finished`, the finished tasks of the same version, source, customer, document
        type and language (as far as cohorts are made by them), and `share`, what part of them waits as its
        dead letters. Shares read all tasks of the versions.
        """
        with reading(self._url) as connection:
            terms = self._terms(connection, which) | {"by": list(by), "most": most}
            found = rows(connection, self._over("letters_cohorts"), terms)
            if not shares:
                return found
            finished = rows(connection, self._sql["letters_finished"], terms)
        counts = {_slice(row): row["finished"] for row in finished}
        return [row | _share(row, counts.get(_slice(row), 0)) for row in found]

    def costs(self, which: LetterFilter) -> list[Row]:
        """Calls that brought nothing, by version and code: pipeline, version and time of the filter count."""
        with reading(self._url) as connection:
            return rows(connection, self._sql["letters_costs"], self._terms(connection, which))

    def count(self, which: LetterFilter) -> LetterCount:
        """How many match."""
        with reading(self._url) as connection:
            found = connection.execute(self._over("letters_size"), self._terms(connection, which)).fetchall()
        return LetterCount(
            {state: number for state, number, _ in found}, max((r[2] for r in found), default=0)
        )

    def ids(self, which: LetterFilter, *, up_to: int, after: int = 0, most: int = 200) -> list[int]:
        """Ids behind `after` and up to `up_to`, in order."""
        with reading(self._url) as connection:
            terms = self._terms(connection, which) | {"up_to": up_to}
            return self._ids(connection, terms, after, most, True)

    def export(self, which: LetterFilter, write: Callable[[Row], None]) -> int:
        """Hand every envelope to `write`, oldest first, all as of one moment; how many there were."""
        done, after = 0, 0
        with reading(self._url) as connection:
            terms = self._terms(connection, which)
            for page in self._pages(connection, terms, after):
                for row in self._envelopes(connection, page):
                    write(row)
                done += len(page)
        return done

    def _pages(self, connection: _Connection, terms: Mapping[str, object], after: int) -> Iterator[list[int]]:
        while page := self._ids(connection, terms, after, _EXPORTED_AT_ONCE, True):
            yield page
            after = page[-1]

    def _ids(
        self, connection: _Connection, terms: Mapping[str, object], after: int | None, most: int, oldest: bool
    ) -> list[int]:
        order = self._over("letters_oldest" if oldest else "letters_newest")
        return [row[0] for row in connection.execute(order, {**terms, "after": after, "most": most})]

    def _envelopes(self, connection: _Connection, ids: Sequence[int]) -> list[Row]:
        return rows(connection, self._sql["letters_envelopes"], {"ids": list(ids)})

    def _over(self, name: str) -> LiteralString:
        """A statement over what matches."""
        return "WITH matching AS (" + self._sql["letters_matching"] + ")\n" + self._sql[name]

    def _terms(self, connection: _Connection, which: LetterFilter) -> dict[str, object]:
        ((now,),) = connection.execute(self._sql["letters_now"]).fetchall()
        return {
            "ids": None if which.ids is None else list(which.ids),
            "up_to": None,
            "states": None if which.states is None else [state.value for state in which.states],
            "version_ids": self._version_ids(connection, which),
            "source_ids": self._looked_up(connection, "letters_sources", {"source": which.source}),
            "task_ids": self._looked_up(connection, "letters_tasks", {"record_id": which.record_id}),
            "field": None if which.field is None else folded(which.field),
            "since": _moment(which.since, now), "until": _moment(which.until, now),
            "overdue_at": now if which.overdue else None,
            "code": which.code, "failure_class": which.failure_class, "kind": which.kind,
            "customer": which.customer, "document_type": which.document_type, "language": which.language,
            "owner": which.owner, "fingerprint": which.fingerprint,
        }  # fmt: skip

    def _version_ids(self, connection: _Connection, which: LetterFilter) -> list[int] | None:
        if which.version is not None:
            return [VersionStore(self._url).resolve(which.version, which.pipeline).version_id]
        found = self._looked_up(connection, "letters_versions", {"pipeline": which.pipeline})
        if found == []:
            raise ConfigurationError(
                f"There is no pipeline {which.pipeline!r}; `assay pipeline list` shows all."
            )
        return found

    def _looked_up(
        self, connection: _Connection, name: str, given: Mapping[str, str | None]
    ) -> list[int] | None:
        """Ids behind a name; None where none is given."""
        if all(value is None for value in given.values()):
            return None
        return [row[0] for row in connection.execute(self._sql[name], given)]


def unknown(ids: Sequence[int]) -> ConfigurationError:
    """The error for ids that name no dead letter."""
    return ConfigurationError(
        f"There is no dead letter {', '.join(map(str, ids))}; `assay dlq list --state any` lists them."
    )


def _moment(bound: datetime | float | None, now: datetime) -> datetime | None:
    return now - timedelta(seconds=bound) if isinstance(bound, int | float) else bound


def _slice(row: Row) -> tuple[object, ...]:
    return tuple(row[name] for name in _OF_TASKS)


def _share(row: Row, finished: object) -> Row:
    waiting, of = int(str(row["waiting"])), int(str(finished))
    return {"finished": of, "share": waiting / of if of else None}
