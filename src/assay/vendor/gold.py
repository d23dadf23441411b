"""Reads texts and their right answers from a JSONL or CSV file."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from assay.vendor.errors import VendorSettingsError

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"
JsonObject: TypeAlias = "dict[str, Json]"
Label: TypeAlias = "str | JsonObject"

LABEL_COLUMNS: Final = ("label", "gold", "category", "intent")
TEXT_COLUMNS: Final = ("text", "ocr_text", "title", "body")
LONGEST_CSV_FIELD: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Gold:
    """Known texts with their right answers. A text given twice keeps its first answer.

    `labels` are the bare labels, sorted; `objects` the answers that are objects, in file order.
    `repeated` counts rows whose text was known already.
    """

    answers: Mapping[str, Label]
    labels: tuple[str, ...]
    objects: tuple[JsonObject, ...]
    repeated: int = 0


def read_gold(path: Path, label_column: str | None = None, text_column: str | None = None) -> Gold:
    """Read a gold file; the suffix `.csv` or `.tsv` says CSV, everything else is JSONL.

    Raises VendorSettingsError naming the file and line, never its content.
    """
    try:
        rows = _csv_rows(path) if path.suffix.lower() in (".csv", ".tsv") else _jsonl_rows(path)
        return _collect(path, rows, label_column, text_column)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise VendorSettingsError(f"the gold file {path} cannot be read ({reason}); check --gold") from error
    except UnicodeDecodeError as error:
        raise VendorSettingsError(f"the gold file {path} is not UTF-8; save it as UTF-8") from error


def _collect(
    path: Path, rows: Iterator[tuple[int, JsonObject]], label_column: str | None, text_column: str | None
) -> Gold:
    answers: dict[str, Label] = {}
    repeated = 0
    for line, row in rows:
        if text_column is None:
            text_column = _first_of(path, row, TEXT_COLUMNS, "text", "--text COLUMN")
        if label_column is None:
            label_column = _first_of(path, row, LABEL_COLUMNS, "label", "--gold FILE#LABEL_COLUMN")
        text = row.get(text_column)
        if not isinstance(text, str):
            raise VendorSettingsError(f"{path}, line {line}: the column {text_column} holds no text")
        label = _label(path, line, label_column, row.get(label_column))
        if text in answers:
            repeated += 1
        else:
            answers[text] = label
    if not answers:
        raise VendorSettingsError(f"the gold file {path} holds no rows; the practice vendor needs some")
    labels = {label for label in answers.values() if isinstance(label, str)}
    objects = tuple(label for label in answers.values() if isinstance(label, dict))
    return Gold(answers, tuple(sorted(labels)), objects, repeated)


def _label(path: Path, line: int, column: str, value: Json) -> Label:
    if isinstance(value, dict):
        return value
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise VendorSettingsError(
            f"{path}, line {line}: the column {column} holds neither a label nor an object"
        )
    label = str(value)
    if label.lstrip().startswith("{"):
        try:
            parsed: Json = json.loads(label)
        except ValueError:
            return label
        if isinstance(parsed, dict):
            return parsed
    return label


def _first_of(path: Path, row: JsonObject, names: tuple[str, ...], what: str, option: str) -> str:
    for name in names:
        if name in row:
            return name
    raise VendorSettingsError(
        f"the gold file {path} has no column that looks like the {what}; name it with {option}"
    )


def _jsonl_rows(path: Path) -> Iterator[tuple[int, JsonObject]]:
    with path.open(encoding="utf-8-sig", newline="\n") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row: Json = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise VendorSettingsError(f"{path}, line {number}: not a JSON object") from error
            if not isinstance(row, dict):
                raise VendorSettingsError(f"{path}, line {number}: not a JSON object")
            yield number, row


def _csv_rows(path: Path) -> Iterator[tuple[int, JsonObject]]:
    csv.field_size_limit(LONGEST_CSV_FIELD)
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    with path.open(encoding="utf-8-sig", newline="") as lines:
        reader = csv.DictReader(lines, delimiter=delimiter)
        try:
            for row in reader:
                yield reader.line_num, {name: value for name, value in row.items() if isinstance(name, str)}
        except csv.Error as error:
            raise VendorSettingsError(f"{path}, line {reader.line_num}: not readable as CSV") from error
