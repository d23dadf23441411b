"""Isolated records as people work on them: listed, looked at, taken on, closed. Every act is kept."""

from __future__ import annotations

from dataclasses import dataclass

import psycopg
from psycopg.rows import TupleRow, tuple_row

from assay.adapters.postgres.queries import queries
from assay.adapters.postgres.reading import Row, reading, rows
from assay.domain.failures import AssayError, ConfigurationError
from assay.domain.identity import SourcePosition
from assay.domain.isolated import IsolatedPiece
from assay.domain.sealing import raw_aad
from assay.ports import VaultPort

_Connection = psycopg.Connection[TupleRow]


@dataclass(frozen=True, slots=True)
class IsolatedFilter:
    """Which isolated records are meant; None: any. `since_seconds`: isolated so long ago at most."""

    state: str | None = None
    code: str | None = None
    error_type: str | None = None
    source: str | None = None
    partition: int | None = None
    since_seconds: float | None = None
    isolated_id: int | None = None


@dataclass(frozen=True, slots=True)
class IsolatedPage:
    """One isolated record without its bytes: where it came from, why, what was done, what came of the fix."""

    record: Row
    acts: list[Row]
    task: Row | None


class IsolatedStore:
    """Reads and acts on isolated records of the database at `url`."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._sql = queries("isolated")

    def list(self, which: IsolatedFilter, *, after: int = 0, most: int = 100) -> list[Row]:
        """Records behind the id `after`, oldest first."""
        with reading(self._url) as connection:
            return rows(connection, self._sql["isolated_list"], _terms(which, after, most))

    def page(self, isolated_id: int) -> IsolatedPage:
        """Everything but the bytes. Raises `ConfigurationError` where there is no such record."""
        terms = {"isolated_id": isolated_id}
        with reading(self._url) as connection:
            which = IsolatedFilter(isolated_id=isolated_id)
            found = rows(connection, self._sql["isolated_list"], _terms(which, 0, 1))
            acts = rows(connection, self._sql["isolated_acts"], terms)
            tasks = rows(connection, self._sql["isolated_tasks"], terms)
        if not found:
            raise _unknown(isolated_id)
        return IsolatedPage(found[0], acts, tasks[0] if tasks else None)

    def open_bytes(
        self, isolated_id: int, vault: VaultPort, *, actor: str, reason: str | None = None
    ) -> IsolatedPiece:
        """The piece with its bytes. That somebody looked at them is durable before they are handed out."""
        with self._connect() as connection:
            self._locked(connection, isolated_id)
            found = open_pieces(
                connection.execute(self._sql["isolated_sealed"], {"isolated_ids": [isolated_id]}).fetchall(),
                vault,
            )
            if not found:
                raise AssayError(
                    f"The bytes of isolated record {isolated_id} are not in the vault; run `assay audit`."
                )
            self._act(
                connection, {"isolated_id": isolated_id, "kind": "shown", "actor": actor, "reason": reason}
            )
        return found[0]

    def assign(self, isolated_id: int, *, owner: str, actor: str) -> bool:
        """Somebody takes the record on; False where it is open no more."""
        with self._connect() as connection:
            if self._locked(connection, isolated_id) != "open":
                return False
            act = {"isolated_id": isolated_id, "kind": "assigned", "actor": actor, "owner": owner}
            self._act(connection, act)
            connection.execute(self._sql["isolated_assign"], act)
        return True

    def close(self, isolated_id: int, *, actor: str, reason: str) -> bool:
        """Nothing will come of the record; False where it was resolved or closed already."""
        with self._connect() as connection:
            if self._locked(connection, isolated_id) != "open":
                return False
            act = {"isolated_id": isolated_id, "kind": "closed", "actor": actor, "reason": reason}
            self._act(connection, act)
            connection.execute(self._sql["isolated_close"], act)
        return True

    def _locked(self, connection: _Connection, isolated_id: int) -> str:
        row = connection.execute(self._sql["isolated_lock"], {"isolated_id": isolated_id}).fetchone()
        if row is None:
            raise _unknown(isolated_id)
        return str(row[0])

    def _act(self, connection: _Connection, act: dict[str, object]) -> None:
        connection.execute(self._sql["isolated_act"], {"reason": None, "owner": None} | act)

    def _connect(self) -> _Connection:
        return psycopg.connect(self._url, row_factory=tuple_row, application_name="assay isolated")


def open_pieces(sealed: list[TupleRow], vault: VaultPort) -> list[IsolatedPiece]:
    """Rows of `isolated_sealed` with their bytes in clear.

    Raises `Unreadable` for bytes that do not open, `WrongVaultKey` for another vault's.
    """
    return [_piece(row, vault) for row in sealed]


def _piece(row: TupleRow, vault: VaultPort) -> IsolatedPiece:
    isolated_id, source_id, kind, source, mapping, partition, offset, line, timestamp_ms, *rest = row
    code, record_id, input_version, attributes, *keys, sealed = rest
    kek_id, wrapped, subject, subject_kek_id, subject_wrapped = keys
    if subject is not None and subject_wrapped is None:
        raise AssayError(f"The vault lacks the key of isolated record {isolated_id}; run `assay audit`.")
    subject_key = None if subject is None else vault.unwrap(subject_wrapped, subject_kek_id)
    key = vault.unwrap(wrapped, kek_id, subject_key)
    raw = vault.open(key, sealed, raw_aad(source_id, partition, offset))
    position = SourcePosition(partition, offset, line, timestamp_ms=timestamp_ms)
    return IsolatedPiece(
        isolated_id, source_id, kind, source, mapping, position, code, raw, record_id, input_version,
        attributes or {}, subject,
    )  # fmt: skip


def _terms(which: IsolatedFilter, after: int, most: int) -> dict[str, object]:
    return {
        "isolated_id": which.isolated_id, "state": which.state, "code": which.code,
        "error_type": which.error_type, "source": which.source, "partition": which.partition,
        "since_seconds": which.since_seconds, "after": after, "most": most,
    }  # fmt: skip


def _unknown(isolated_id: int) -> ConfigurationError:
    return ConfigurationError(
        f"There is no isolated record {isolated_id}; `assay isolated list --state any` lists them."
    )
