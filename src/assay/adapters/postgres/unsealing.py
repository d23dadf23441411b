"""Opens what the vault's tables hold about annotations: text and label, by the record's data key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import psycopg
from psycopg.rows import TupleRow

from assay.adapters.postgres.queries import queries
from assay.adapters.postgres.session import columns
from assay.domain.failures import AssayError
from assay.domain.identity import InputKey
from assay.domain.sealing import label_aad, text_aad
from assay.ports import VaultPort


@dataclass(frozen=True, slots=True)
class SealedRefs:
    """Where the text and the label of an annotation lie, and what they are tied to."""

    task_id: int
    key: InputKey
    sha256: bytes
    text_ref: int
    label_ref: int | None


@dataclass(frozen=True, slots=True)
class Opened:
    """Label (canonical JSON) and text in clear; None where there is none or it was not asked for."""

    label_json: str | None = field(repr=False)
    text: str | None = field(repr=False)


class Unsealer:
    """Reads and opens sealed values in batches. Keys are used and forgotten: they may be erased any time."""

    def __init__(self, vault: VaultPort) -> None:
        self._vault = vault
        self._sql = queries("results")["sealed"]

    def open(
        self, connection: psycopg.Connection[TupleRow], refs: Sequence[SealedRefs], *, with_text: bool
    ) -> dict[int, Opened]:
        """By task id. A task is missing when its keys are gone.

        Raises `VaultError` for another vault key, `AssayError` for a label that is not where it should be.
        """
        by_task = {ref.task_id: ref for ref in refs}
        names = ("task_ids", "text_refs", "label_refs")
        parameters = columns([(ref.task_id, ref.text_ref, ref.label_ref) for ref in refs], names)
        found = connection.execute(self._sql, parameters | {"with_text": with_text})
        return {row[0]: self._open(by_task[row[0]], row) for row in found}

    def _open(self, ref: SealedRefs, row: TupleRow) -> Opened:
        _, kek_id, wrapped, subject, subject_kek_id, subject_wrapped, sealed_text, sealed_label = row
        if (subject is not None and subject_wrapped is None) or (ref.label_ref and sealed_label is None):
            raise AssayError(
                f"The vault lacks what belongs to record {ref.key.record_id}; run `assay audit`."
            )
        subject_key = None if subject is None else self._vault.unwrap(subject_wrapped, subject_kek_id)
        key = self._vault.unwrap(wrapped, kek_id, subject_key)
        label = text = None
        if sealed_label is not None:
            label = self._vault.open(key, sealed_label, label_aad(ref.key, ref.sha256, ref.task_id)).decode()
        if sealed_text is not None:
            text = self._vault.open(key, sealed_text, text_aad(ref.key, ref.sha256)).decode()
        return Opened(label, text)
