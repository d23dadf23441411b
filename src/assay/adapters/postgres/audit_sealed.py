"""Opens everything that is sealed, row by row through cursors, and says what does not open."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256

import psycopg
from psycopg.rows import TupleRow

from assay.adapters.postgres.queries import queries
from assay.domain.failures import AssayError
from assay.domain.identity import InputKey
from assay.domain.sealing import label_aad, raw_aad, text_aad
from assay.ports import VaultPort

_Connection = psycopg.Connection[TupleRow]
_ROWS_AT_ONCE = 1000


class SealedCheck:
    """What does not open with this vault. Keys and plaintext live as long as their row is looked at.

    Another vault key than the database was written with is no broken row: `AssayError` says so at once.
    """

    def __init__(self, vault: VaultPort) -> None:
        self._vault = vault
        self._sql = queries("audit")

    def texts(self, connection: _Connection) -> Iterator[tuple[str, int | None]]:
        """Texts that do not open, or have another fingerprint than their input."""
        for key, record_id, number, fingerprint, *keys, sealed in self._rows(connection, "sealed_texts"):
            opened = self._open(tuple(keys), sealed, text_aad(InputKey(record_id, number), fingerprint))
            if opened is None or sha256(opened).digest() != fingerprint:
                yield key, None

    def labels(self, connection: _Connection) -> Iterator[tuple[str, int | None]]:
        """Labels that do not open, or are no JSON."""
        for key, task_id, record_id, number, fingerprint, *keys, sealed in self._rows(
            connection, "sealed_labels"
        ):
            aad = label_aad(InputKey(record_id, number), fingerprint, task_id)
            if not _is_json(self._open(tuple(keys), sealed, aad)):
                yield key, task_id

    def raws(self, connection: _Connection) -> Iterator[tuple[str, int | None]]:
        """Isolated bytes that do not open; a conflict's must have the hash that was offered."""
        for key, source_id, partition, offset, offered, *keys, sealed in self._rows(
            connection, "sealed_raws"
        ):
            opened = self._open(tuple(keys), sealed, raw_aad(source_id, partition, offset))
            if opened is None or (offered is not None and sha256(opened).digest() != offered):
                yield key, None

    def _open(self, keys: tuple[object, ...], sealed: bytes, aad: bytes) -> bytes | None:
        """The plaintext; None where it does not open."""
        kek_id, wrapped, subject, subject_kek_id, subject_wrapped = keys
        outer = subject_kek_id if subject is not None else kek_id
        own_key = outer in self._vault.kek_ids
        try:
            subject_key = (
                None if subject is None else self._vault.unwrap(_bytes(subject_wrapped), str(subject_kek_id))
            )
            key = self._vault.unwrap(_bytes(wrapped), str(kek_id), subject_key)
            return self._vault.open(key, sealed, aad)
        except AssayError:
            if not own_key:
                raise
            return None

    def _rows(self, connection: _Connection, name: str) -> Iterator[TupleRow]:
        with connection.cursor(name=f"audit_{name}") as cursor:
            cursor.itersize = _ROWS_AT_ONCE
            cursor.execute(self._sql[name])
            yield from cursor


def _bytes(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError("a wrapped key is bytes")
    return value


def _is_json(opened: bytes | None) -> bool:
    if opened is None:
        return False
    try:
        json.loads(opened)
    except ValueError:
        return False
    return True
