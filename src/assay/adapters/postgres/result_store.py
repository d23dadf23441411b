"""Annotations for people and programs: exported row by row, or compared with gold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Final

import psycopg
from psycopg.rows import TupleRow

from assay.adapters.postgres.queries import queries
from assay.adapters.postgres.reading import reading
from assay.adapters.postgres.unsealing import SealedRefs, Unsealer
from assay.domain.failures import AssayError
from assay.domain.identity import InputKey
from assay.domain.json_text import Json, read_json
from assay.domain.lifecycle import TaskState
from assay.ports import VaultPort

BATCH: Final = 2000
_ID_BATCH: Final = 10_000


@dataclass(frozen=True, slots=True)
class Annotation:
    """One annotation as it is exported. `label` is the plain part, or the whole one where it was unsealed.

    `revision` is that of the line's result, None where the result points at another annotation.
    """

    task_id: int
    version_id: int
    record_id: str
    input_version: int
    state: TaskState
    label: Json = field(repr=False)
    confidence: Decimal | None
    error_code: str | None
    review_reason: str | None
    first_pass_code: str | None
    attempts: int
    revision: int | None
    text: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a version answered to one record. `value` is the compared field, None where there is no label.

    `labelled` says whether there is a label. `errors` are (JSON Pointer, type) of the open dead letter.
    """

    record_id: str
    input_version: int
    state: TaskState
    labelled: bool
    value: Json = field(repr=False)
    error_code: str | None
    errors: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which annotations: versions of one line, states (None: all), and whether only those being served."""

    name: str
    version_ids: tuple[int, ...]
    states: tuple[TaskState, ...] | None = None
    served: bool = False


class ResultStore:
    """Reads annotations. With a vault, what is sealed is opened; without one, it is left out."""

    def __init__(self, url: str, vault: VaultPort | None = None) -> None:
        self._url = url
        self._unsealer = None if vault is None else Unsealer(vault)
        self._sql = queries("results")

    def annotations(self, selection: Selection, *, with_text: bool = False) -> Iterator[Annotation]:
        """Annotations in key order, as they are at one moment; memory does not grow with their number."""
        parameters = {
            "name": selection.name,
            "version_ids": list(selection.version_ids),
            "states": None if selection.states is None else [state.value for state in selection.states],
            "served": selection.served,
        }
        with reading(self._url) as connection, connection.cursor(name="annotations") as cursor:
            cursor.execute(self._sql["annotations"], parameters)
            while batch := cursor.fetchmany(BATCH):
                yield from self._annotations(connection, batch, with_text)

    def _annotations(
        self, connection: psycopg.Connection[TupleRow], batch: Sequence[TupleRow], with_text: bool
    ) -> list[Annotation]:
        found = [_annotation(row) for row in batch]
        if self._unsealer is None:
            return found
        refs = [
            _refs(row[0], row[2], row[3], row[12:])
            for row, annotation in zip(batch, found, strict=True)
            if annotation.state is not TaskState.ERASED and (with_text or row[14] is not None)
        ]
        opened = self._unsealer.open(connection, refs, with_text=with_text)
        if len(opened) < len(refs):
            missing = next(ref.key.record_id for ref in refs if ref.task_id not in opened)
            raise AssayError(f"The vault lacks the keys of record {missing}; run `assay audit`.")
        whole = []
        for annotation in found:
            clear = opened.get(annotation.task_id)
            if clear is None:
                whole.append(annotation)
                continue
            label = annotation.label if clear.label_json is None else read_json(clear.label_json)
            whole.append(replace(annotation, label=label, text=clear.text))
        return whole

    def answers(self, version_id: int, record_ids: Sequence[str], label_key: str) -> Iterator[Answer]:
        """What a version answered in the field `label_key` (top level) to those of the records it knows."""
        with reading(self._url) as connection:
            for start in range(0, len(record_ids), _ID_BATCH):
                parameters = {
                    "record_ids": list(record_ids[start : start + _ID_BATCH]),
                    "version_id": version_id,
                    "field": label_key,
                }
                found = connection.execute(self._sql["answers"], parameters).fetchall()
                sealed = self._sealed_values(connection, found, label_key)
                for row in found:
                    yield _answer(row, sealed.get(row[0]))

    def _sealed_values(
        self, connection: psycopg.Connection[TupleRow], found: Sequence[TupleRow], label_key: str
    ) -> dict[int, Json]:
        refs = [
            _refs(row[0], row[1], row[2], row[7:])
            for row in found
            if row[4] is None and row[9] is not None and row[3] != TaskState.ERASED
        ]
        if self._unsealer is None or not refs:
            return {}
        values: dict[int, Json] = {}
        for task_id, clear in self._unsealer.open(connection, refs, with_text=False).items():
            label = None if clear.label_json is None else read_json(clear.label_json)
            if isinstance(label, dict) and label_key in label:
                values[task_id] = label[label_key]
        return values

    def annotated(self, version_id: int) -> tuple[int, str | None]:
        """How many records a version has annotated or begun to, and one of their ids."""
        with reading(self._url) as connection:
            row = connection.execute(self._sql["count_annotated"], {"version_id": version_id}).fetchone()
        return (0, None) if row is None else (row[0], row[1])


def _annotation(row: TupleRow) -> Annotation:
    label = None if row[5] is None else read_json(row[5])
    return Annotation(row[0], row[1], row[2], row[3], TaskState(row[4]), label, *row[6:12])


def _refs(task_id: int, record_id: str, input_version: int, rest: Sequence[object]) -> SealedRefs:
    sha256, text_ref, label_ref = rest
    if not isinstance(sha256, bytes) or not isinstance(text_ref, int):
        raise TypeError("a task has a hash and a text")
    key = InputKey(record_id, input_version)
    return SealedRefs(task_id, key, sha256, text_ref, label_ref if isinstance(label_ref, int) else None)


def _answer(row: TupleRow, sealed: Json) -> Answer:
    plain = None if row[4] is None else read_json(row[4])
    return Answer(
        record_id=row[1],
        input_version=row[2],
        state=TaskState(row[3]),
        labelled=row[4] is not None or sealed is not None,
        value=plain if row[4] is not None else sealed,
        error_code=row[5],
        errors=tuple((error["path"], error["type"]) for error in row[6] or ()),
    )
