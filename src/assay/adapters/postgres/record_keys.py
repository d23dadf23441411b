"""Data keys of records and subjects, as they lie wrapped in the vault's tables."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from assay.adapters.postgres.queries import queries
from assay.adapters.postgres.session import Connection
from assay.domain.failures import AssayError, Unreadable
from assay.ports import VaultPort


class RecordKeys:
    """Reads wrapped keys and unwraps them. Subject keys are never cached: they may be erased at any time."""

    def __init__(self, vault: VaultPort) -> None:
        self._vault = vault
        self._sql = queries("claim")

    async def ensure_subjects(self, connection: Connection, subjects: set[str]) -> dict[str, bytes]:
        """The key of each subject, made now where there is none."""
        if not subjects:
            return {}
        names = sorted(subjects)
        wrapped = [self._vault.new_key()[1] for _ in names]
        await connection.execute(
            self._sql["ensure_subject_keys"],
            {"subject_ids": names, "wrapped_keys": wrapped, "kek_id": self._vault.kek_id},
        )
        keys = await self._subjects(connection, names)
        if missing := set(names) - set(keys):
            raise AssayError(f"The vault lacks the key of {len(missing)} subject(s); run `assay audit`.")
        return keys

    async def _subjects(self, connection: Connection, names: Sequence[str]) -> dict[str, bytes]:
        cursor = await connection.execute(self._sql["read_subject_keys"], {"subject_ids": list(names)})
        return {
            subject: self._vault.unwrap(wrapped, kek_id)
            for subject, kek_id, wrapped in await cursor.fetchall()
        }

    async def of_texts(self, connection: Connection, text_refs: Sequence[int]) -> dict[int, bytes]:
        """Data keys by text_ref; what cannot be unwrapped is missing."""
        cursor = await connection.execute(self._sql["claim_keys"], {"text_refs": list(text_refs)})
        return await self._unwrap(connection, await cursor.fetchall())

    async def read_texts(
        self, connection: Connection, text_refs: Sequence[int]
    ) -> dict[int, tuple[bytes, bytes]]:
        """Data key and sealed text by text_ref; what cannot be unwrapped is missing."""
        cursor = await connection.execute(self._sql["read_texts"], {"text_refs": list(text_refs)})
        rows = await cursor.fetchall()
        keys = await self._unwrap(connection, [row[:4] for row in rows])
        return {row[0]: (keys[row[0]], row[4]) for row in rows if row[0] in keys}

    async def _unwrap(self, connection: Connection, rows: Sequence[tuple[Any, ...]]) -> dict[int, bytes]:
        subjects = sorted({row[1] for row in rows if row[1] is not None})
        subject_keys = await self._subjects(connection, subjects) if subjects else {}
        unwrapped = {}
        for text_ref, subject, kek_id, wrapped in rows:
            if subject is None or subject in subject_keys:
                # What does not unwrap is left out: it concerns this record, not the others.
                with contextlib.suppress(Unreadable):
                    subject_key = None if subject is None else subject_keys[subject]
                    unwrapped[text_ref] = self._vault.unwrap(wrapped, kek_id, subject_key)
        return unwrapped
