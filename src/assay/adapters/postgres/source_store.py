"""Sources: registration, checkpoints, isolation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assay.adapters.postgres.claim_rows import attributes_of
from assay.adapters.postgres.queries import queries
from assay.adapters.postgres.record_keys import RecordKeys
from assay.adapters.postgres.session import Connection, Pool, columns, transact
from assay.domain.failures import AssayError
from assay.domain.sealing import raw_aad
from assay.domain.work import Isolation
from assay.ports import VaultPort


class SourceStore:
    """One source as read by one pipeline version."""

    def __init__(self, pool: Pool, vault: VaultPort, *, version_id: int) -> None:
        self._pool = pool
        self._vault = vault
        self._keys = RecordKeys(vault)
        self._version_id = version_id
        self._sql = queries("sources")

    async def register(
        self, *, kind: str, name: str, fingerprint: str, mapping: str, total: int | None = None
    ) -> int:
        """The id of this content under this name and mapping; `total` is its number of records, if known."""
        parameters = {"kind": kind, "name": name, "fingerprint": fingerprint, "mapping": mapping,
                      "total": total}  # fmt: skip
        rows = await transact(self._pool, lambda c: self._all(c, "register_source", parameters))
        return int(rows[0][0])

    async def checkpoint(self, source_id: int, partition: int = 0) -> int:
        """The first offset that has no durable destination yet (0 for a source not read before)."""
        parameters = {"source_id": source_id, "version_id": self._version_id, "partition": partition}
        rows = await transact(self._pool, lambda c: self._all(c, "read_checkpoint", parameters))
        return int(rows[0][0]) if rows else 0

    async def position(self, source_id: int, partition: int) -> int | None:
        """The first offset without a durable destination, whichever version read it; None: never read.

        A topic is read once for a pipeline, not once for each of its versions.
        """
        parameters = {"source_id": source_id, "partition": partition}
        rows = await transact(self._pool, lambda c: self._all(c, "read_position", parameters))
        return None if rows[0][0] is None else int(rows[0][0])

    async def commit(self, source_id: int, offset: int, partition: int = 0, *, floor: int = 0) -> None:
        """Everything below `offset` has a durable destination.

        Raises `AssayError`, with nothing written, where the database knows of less than `floor`, which it has
        told before: it has gone back, and what it has forgotten must be read again.
        """
        parameters = {"source_id": source_id, "version_id": self._version_id,
                      "partition": partition, "offset": offset, "floor": floor}  # fmt: skip

        async def write(connection: Connection) -> int:
            cursor = await connection.execute(self._sql["commit_offset"], parameters)
            ((known,),) = await cursor.fetchall()
            return int(known)

        if (known := await transact(self._pool, write)) < floor:
            raise AssayError(
                f"The database has gone back: it knows partition {partition} up to offset {known}, and had "
                f"it up to {floor}. A failover to a standby that was behind does that. End all workers and "
                "publishers, run `assay db restored`, then start them again: what is missing is read again."
            )

    async def isolate(self, source_id: int, isolations: Sequence[Isolation]) -> int:
        """Keep pieces of the source apart, bytes in the vault; returns how many were new.

        A conflict's bytes are a person's as much as the record's: they stand under the subject's key.
        """
        return await transact(self._pool, lambda c: self._isolate(c, source_id, isolations))

    async def _isolate(self, connection: Connection, source_id: int, isolations: Sequence[Isolation]) -> int:
        subjects = {subject for each in isolations if (subject := _subject(each)) is not None}
        subject_keys = await self._keys.ensure_subjects(connection, subjects)
        rows = [self._row(source_id, isolation, subject_keys) for isolation in isolations]
        names = ("partitions", "offsets", "lines", "error_codes", "error_types", "paths", "record_ids",
                 "input_versions", "sha256s", "subject_ids", "wrapped_keys", "ciphertexts", "timestamps_ms",
                 "attributes")  # fmt: skip
        parameters = columns(rows, names) | {"source_id": source_id, "kek_id": self._vault.kek_id}
        found = await self._all(connection, "isolate", parameters)
        return int(found[0][0])

    def _row(
        self, source_id: int, isolation: Isolation, subject_keys: Mapping[str, bytes]
    ) -> tuple[Any, ...]:
        position, record, subject = isolation.position, isolation.record, _subject(isolation)
        key, wrapped = self._vault.new_key(subject_keys[subject] if subject is not None else None)
        sealed = self._vault.seal(key, isolation.raw, raw_aad(source_id, position.partition, position.offset))
        return (position.partition, position.offset, position.line, isolation.error_code,
                isolation.error_type, isolation.path, record.record_id if record else None,
                record.input_version if record else None, record.sha256 if record else None,
                subject, wrapped, sealed, position.timestamp_ms,
                attributes_of(record) if record else None)  # fmt: skip

    async def _all(self, connection: Connection, name: str, parameters: Any) -> list[tuple[Any, ...]]:
        cursor = await connection.execute(self._sql[name], parameters)
        return await cursor.fetchall()


def _subject(isolation: Isolation) -> str | None:
    return isolation.record.attributes.subject_id if isolation.record is not None else None
