"""The audit: every invariant of `assay.domain.audit`, checked in one read-only snapshot.

The snapshot is REPEATABLE READ: a running worker commits whole steps, so it can raise no false alarm. Where
a rule spans transactions (a checkpoint is committed after the finishes it stands for), the later one implies
the earlier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, LiteralString

import psycopg
from psycopg.rows import TupleRow

from assay.adapters.postgres import schema_guards
from assay.adapters.postgres.audit_sealed import SealedCheck
from assay.adapters.postgres.migrate import migrations
from assay.adapters.postgres.queries import queries
from assay.adapters.postgres.reading import reading
from assay.domain.audit import INVARIANTS, NOTES, OVERDUE_SECONDS, SAMPLE, AuditReport, Finding, Invariant
from assay.domain.digest import definition_digest
from assay.domain.lifecycle import LEGAL_MOVES
from assay.ports import VaultPort

ROOMS: Final = (
    "audit_tasks", "audit_destinations", "audit_ledgers", "audit_budgets", "audit_isolated",
    "audit_dead_letters", "audit_replays",
)  # fmt: skip

# Static text around a static query: how many rows there are, and the first of them.
_HEAD: Final[LiteralString] = "WITH broken (key, task_id) AS MATERIALIZED ("
_TAIL: Final[LiteralString] = (
    ") SELECT key, task_id, count(*) OVER () FROM broken ORDER BY task_id, key LIMIT %(sample)s::int4"
)
_Connection = psycopg.Connection[TupleRow]
_Broken = tuple[str, int | None]


class AuditStore:
    """Audits the database at `url`; `vault` is needed for what is sealed (`deep`)."""

    def __init__(self, url: str, vault: VaultPort | None = None, *, sample: int = SAMPLE) -> None:
        self._url = url
        self._vault = vault
        self._sample = sample
        self._frame = queries("audit")
        self._queries = {name: sql for room in ROOMS for name, sql in queries(room).items()}
        self._checks: dict[str, Callable[[_Connection], Iterable[_Broken]]] = {
            "version_digest_is_of_its_definition": self._digests,
            "triggers_are_in_place": self._triggers,
            "functions_are_as_migrated": self._functions,
            "constraints_are_in_place": self._constraints,
            "migrations_are_as_shipped": self._migrations,
        }
        if vault is not None:
            sealed = SealedCheck(vault)
            self._checks |= {"text_opens": sealed.texts, "label_opens": sealed.labels,
                             "isolated_bytes_open": sealed.raws}  # fmt: skip

    @property
    def checkable(self) -> set[str]:
        """Names of the invariants that have a query or a check."""
        return {*self._queries, *self._checks}

    def audit(self, say: Callable[[Invariant], None] = lambda _: None) -> AuditReport:
        """Check every invariant; the sealed ones where there is a vault. `say` hears of each before its turn.

        Raises `AssayError` for a vault key that is not this database's.
        """
        wanted = [each for each in INVARIANTS if self._vault is not None or not each.deep]
        with reading(self._url) as connection:
            connection.execute(self._frame["prepare"])
            tasks, inputs, events = connection.execute(self._frame["size"]).fetchall()[0]
            broken = []
            for invariant in wanted:
                say(invariant)
                if finding := self._find(connection, invariant.name):
                    broken.append(finding)
            notes = [
                finding
                for name in NOTES
                if (finding := self._query(connection, name, self._frame[name])) is not None
            ]
        return AuditReport(len(wanted), tasks, inputs, events, tuple(broken), tuple(notes))

    def _find(self, connection: _Connection, name: str) -> Finding | None:
        if name in self._checks:
            return self._count(connection, name, self._checks[name](connection))
        return self._query(connection, name, self._queries[name])

    def _query(self, connection: _Connection, name: str, sql: LiteralString) -> Finding | None:
        found = connection.execute(_HEAD + sql + _TAIL, self._parameters()).fetchall()
        if not found:
            return None
        return self._finding(connection, name, found[0][2], [(key, task_id) for key, task_id, _ in found])

    def _count(self, connection: _Connection, name: str, found: Iterable[_Broken]) -> Finding | None:
        count, first = 0, []
        for each in found:
            count += 1
            if count <= self._sample:
                first.append(each)
        return self._finding(connection, name, count, first) if count else None

    def _finding(self, connection: _Connection, name: str, count: int, first: list[_Broken]) -> Finding:
        task_ids = [task_id for _, task_id in first if task_id is not None]
        rows = connection.execute(self._frame["who"], {"task_ids": task_ids}) if task_ids else ()
        who = {task_id: f" (record {record_id} version {number})" for task_id, record_id, number, _ in rows}
        sample = tuple(key + ("" if task_id is None else who.get(task_id, "")) for key, task_id in first)
        return Finding(name, count, sample)

    def _parameters(self) -> Mapping[str, object]:
        moves = sorted((before or "", move, after) for before, move, after in LEGAL_MOVES)
        return {
            "sample": self._sample,
            "overdue_seconds": OVERDUE_SECONDS,
            "from_states": [str(before) for before, _, _ in moves],
            "moves": [str(move) for _, move, _ in moves],
            "to_states": [str(after) for _, _, after in moves],
        }

    def _digests(self, connection: _Connection) -> Iterable[_Broken]:
        for version_id, digest, definition in connection.execute(self._frame["definitions"]):
            if not isinstance(definition, dict) or definition_digest(definition) != digest:
                yield f"version {version_id}", None

    def _triggers(self, connection: _Connection) -> Iterable[_Broken]:
        present = set(connection.execute(self._frame["triggers"]).fetchall())
        for table, trigger, _ in sorted(schema_guards.triggers() - present):
            yield f"trigger {trigger} on {table}", None

    def _functions(self, connection: _Connection) -> Iterable[_Broken]:
        present: dict[str, str] = dict(connection.execute(self._frame["functions"]).fetchall())
        for name, body in sorted(schema_guards.functions().items()):
            if present.get(name) != body:
                yield f"function {name}", None

    def _constraints(self, connection: _Connection) -> Iterable[_Broken]:
        present = {name for (name,) in connection.execute(self._frame["constraints"])}
        for name in sorted(schema_guards.constraints() - present):
            yield f"constraint {name}", None

    def _migrations(self, connection: _Connection) -> Iterable[_Broken]:
        applied = {version: rest for version, *rest in connection.execute(self._frame["migrations_applied"])}
        shipped = {each.version: [each.name, each.checksum] for each in migrations()}
        for version in sorted(applied.keys() | shipped.keys()):
            if applied.get(version) != shipped.get(version):
                yield f"migration {version:04d}", None
