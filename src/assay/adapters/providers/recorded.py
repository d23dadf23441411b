"""Answers from a file instead of a model: `recorded:FILE#COLUMN`.

For labels that another system made, and for tests without a network. Nothing is paid and nothing is sent.
"""

from __future__ import annotations

import json
import time
from decimal import Decimal
from pathlib import Path
from typing import Final, NamedTuple

from assay.adapters.providers.recorded_index import AnswersChangedError, AnswersFile
from assay.adapters.providers.recorded_rows import Cell
from assay.domain.failures import (
    ConfigurationError,
    ConfigurationProviderError,
    ProviderError,
    RequestProviderError,
)
from assay.ports import ModelRequest, ModelResponse

_NOTHING: Final = Decimal(0)
_MAX_ROW_DIGITS: Final = 12


class RecordedSpec(NamedTuple):
    """`FILE#COLUMN`, with `?id=COLUMN` at the end of either part."""

    file: str
    column: str
    id_column: str | None


def parse_recorded(spec: str) -> RecordedSpec:
    """What follows `recorded:`. Raises `ConfigurationError`."""
    rest, _, id_column = spec.partition("?id=")
    if "#" in id_column:
        id_column, _, column = id_column.partition("#")
        file = rest
    else:
        file, _, column = rest.partition("#")
    if not file or not column or ("?id=" in spec and not id_column):
        raise ConfigurationError(
            "A recorded model is written recorded:FILE.csv#COLUMN or recorded:FILE.csv#COLUMN?id=ID_COLUMN:"
            " correct the pipeline's model."
        )
    return RecordedSpec(file, column, id_column or None)


class RecordedModel:
    """A `ModelPort` that looks the answer up by record id.

    Record `<file name>:<n>` is data row n (from 1) of the file of that name; any other id is looked for
    in the column `id_column`, or else `record_id` or `id` if the file has one. With `id_column` only that
    column counts. A record without an answer gets "", which the boundary calls `response_empty`.

    `label_field` is the contract's only required field, or None where it has other fields too: a bare
    label is then put under it; a JSON object or array passes as it is, character for character.
    """

    def __init__(
        self, path: Path, column: str, *, id_column: str | None = None, label_field: str | None = None
    ) -> None:
        self._answers = AnswersFile(path, column, id_column)
        self._row_prefix = f"{path.name}:"
        self._by_id_only = id_column is not None
        self._label_field = label_field
        self._name = f"recorded:{path.name}#{column}"

    @property
    def account(self) -> None:
        """Nobody's: no vendor is asked."""
        return None

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """The recorded answer, the same at each pass. Raises `ConfigurationProviderError` if the file
        changed since it was read, `RequestProviderError` if it holds the record's id twice."""
        started = time.perf_counter()
        try:
            cell = self._look_up(request.record_id)
        except (AnswersChangedError, OSError):
            raise _unusable() from None
        return ModelResponse(
            content="" if cell is None else as_response(cell, self._label_field),
            cost=_NOTHING,
            model=self._name,
            latency_ms=(time.perf_counter() - started) * 1000.0,
        )

    async def aclose(self) -> None:
        """Close the file. May be called twice."""
        self._answers.close()

    def _look_up(self, record_id: str) -> Cell | None:
        row = None if self._by_id_only else self._row_number(record_id)
        if row is None:
            rows = self._answers.rows_with_id(record_id)
            if len(rows) > 1:
                # Which of the two answers is meant, nobody can say: it concerns this record alone.
                raise RequestProviderError("recorded_answer_ambiguous", billed=False)
            row = rows[0] if rows else None
        return None if row is None else self._answers.answer(row)

    def _row_number(self, record_id: str) -> int | None:
        digits = record_id.removeprefix(self._row_prefix)
        if digits == record_id or not (digits.isascii() and digits.isdecimal()) or digits.startswith("0"):
            return None
        row = int(digits) if len(digits) <= _MAX_ROW_DIGITS else 0
        return row if 1 <= row <= len(self._answers) else None


def as_response(cell: Cell, label_field: str | None) -> str | bytes:
    """The response that a cell stands for: the cell itself, or a bare label under `label_field`.

    What begins like an object or array is never wrapped, well-formed or not: a broken answer must reach
    the boundary broken.
    """
    text = cell.text
    if label_field is None or isinstance(text, bytes):
        return text
    if not text.strip() or text.lstrip().startswith(("{", "[")):
        return text
    value = text if cell.json_scalar else json.dumps(text, ensure_ascii=False)
    return f"{{{json.dumps(label_field, ensure_ascii=False)}: {value}}}"


def _unusable() -> ProviderError:
    return ConfigurationProviderError("provider_settings_rejected", billed=False)
