"""What `assay results` does once its options are read."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from assay.adapters.postgres.result_store import Annotation, ResultStore, Selection
from assay.app import open_vault
from assay.cli.chosen import Chosen, choose
from assay.cli.json_text import to_json
from assay.cli.label_fields import LabelFields, label_fields
from assay.cli.opened import existing_database
from assay.cli.output_file import check_output, destination
from assay.cli.results_parquet import (
    ParquetRows,
    annotation_columns,
    annotation_values,
    label_columns,
    label_values,
)
from assay.cli.said import say
from assay.config import load_settings
from assay.domain.failures import ConfigurationError
from assay.domain.json_text import Json, Number
from assay.domain.lifecycle import TaskState

_BEFORE: Final = ("record_id", "input_version", "state")
_AFTER: Final = (
    "confidence", "error_code", "review_reason", "first_pass_code", "pipeline_version", "attempts",
    "revision",
)  # fmt: skip
Fields = Mapping[int, tuple[str, LabelFields]]
"""Digest and label fields by version id."""
Write = Callable[[Annotation], None]


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """The options of `assay results`, read."""

    target: str | None = None
    version: str | None = None
    model: str | None = None
    states: tuple[TaskState, ...] | None = None
    form: str = "jsonl"
    output: Path | None = None
    reveal: bool = False
    with_text: bool = False
    served: bool | None = None


def export(options: ExportOptions) -> None:
    """Write the rows that the options ask for."""
    if options.with_text and not options.reveal:
        raise ConfigurationError("--with-text shows the records' text; give --reveal with it.")
    check_output(options.output, options.form)
    settings = load_settings()
    with existing_database(settings) as url:
        chosen = choose(url, options.target, version=options.version, model=options.model,
                        served=options.served)  # fmt: skip
        fields = {v.version_id: (v.pipeline_version, label_fields(v.definition)) for v in chosen.versions}
        store = ResultStore(url, open_vault(settings) if options.reveal else None)
        found = store.annotations(_selection(chosen, options), with_text=options.with_text)
        with destination(options.output) as stream:
            count = _write(found, fields, options, stream)
    if not options.reveal:
        _tell_hidden(fields)
    if options.output is not None:
        say(f"{count} rows in {options.output}.")
    elif not count:
        say(f"No annotation of {chosen.name} matches.")


def _selection(chosen: Chosen, options: ExportOptions) -> Selection:
    ids = tuple(version.version_id for version in chosen.versions)
    return Selection(chosen.name, ids, options.states, chosen.served)


def _tell_hidden(fields: Fields) -> None:
    hidden = sorted({pointer for _, found in fields.values() for pointer in found.sensitive})
    if hidden:
        say(f"Free text is left out ({', '.join(hidden)}); --reveal shows it.")


class _Utf8:
    """Text into a binary stream, whatever the locale says."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(text.encode("utf-8"))


def _write(found: Iterable[Annotation], fields: Fields, options: ExportOptions, stream: BinaryIO) -> int:
    count = 0
    with _writer(fields, options, stream) as write:
        for annotation in found:
            write(annotation)
            count += 1
    return count


@contextmanager
def _writer(fields: Fields, options: ExportOptions, stream: BinaryIO) -> Iterator[Write]:
    if options.form == "parquet":
        rows = _parquet_rows(fields, options, stream)
        with closing(rows):
            yield _parquet_writer(rows, fields, options)
    elif options.form == "csv":
        yield _csv_writer(fields, options, _Utf8(stream))
    else:
        yield _json_writer(fields, options, _Utf8(stream))


def _keys(fields: Fields, options: ExportOptions) -> list[str]:
    """Label fields that are shown: the newest version's first, in its order."""
    return list(dict.fromkeys(
        key for _, found in reversed(list(fields.values()))
        for key in found.keys if options.reveal or key not in found.hidden
    ))  # fmt: skip


def _parquet_rows(fields: Fields, options: ExportOptions, stream: BinaryIO) -> ParquetRows:
    newest_first = [found for _, found in reversed(list(fields.values()))]
    return ParquetRows(
        stream,
        [
            *annotation_columns(_BEFORE),
            *label_columns(newest_first, _keys(fields, options)),
            *annotation_columns([*_AFTER, *(["text"] if options.with_text else [])]),
        ],
        to_json,
    )


def _parquet_writer(rows: ParquetRows, fields: Fields, options: ExportOptions) -> Write:
    names = (*_BEFORE, *_AFTER, *(("text",) if options.with_text else ()))

    def write(annotation: Annotation) -> None:
        digest, found = fields[annotation.version_id]
        rows.write(
            annotation_values(annotation, names, digest)
            | label_values(_label(annotation, found, options.reveal))
        )

    return write


def _label(annotation: Annotation, fields: LabelFields, reveal: bool) -> Json:
    label = fields.arrange(annotation.label)
    if reveal or not isinstance(label, dict):
        return label
    return {key: value for key, value in label.items() if key not in fields.hidden}


def _json_writer(fields: Fields, options: ExportOptions, out: _Utf8) -> Write:
    def write(annotation: Annotation) -> None:
        digest, found = fields[annotation.version_id]
        row: dict[str, object] = {name: getattr(annotation, name) for name in _BEFORE}
        row["label"] = _label(annotation, found, options.reveal)
        row |= {name: digest if name == "pipeline_version" else getattr(annotation, name) for name in _AFTER}
        if options.with_text:
            row["text"] = annotation.text
        out.write(to_json(row) + "\n")

    return write


def _csv_writer(fields: Fields, options: ExportOptions, out: _Utf8) -> Write:
    keys = _keys(fields, options)
    sheet = csv.writer(out, lineterminator="\n")
    sheet.writerow(
        [*_BEFORE, *(f"label.{key}" for key in keys), *_AFTER, *(["text"] if options.with_text else [])]
    )

    def write(annotation: Annotation) -> None:
        digest, found = fields[annotation.version_id]
        label = _label(annotation, found, options.reveal)
        values = label if isinstance(label, dict) else {}
        sheet.writerow([
            *(_cell(getattr(annotation, name)) for name in _BEFORE),
            *(_cell(values.get(key)) for key in keys),
            *(digest if name == "pipeline_version" else _cell(getattr(annotation, name)) for name in _AFTER),
            *([annotation.text] if options.with_text else []),
        ])  # fmt: skip

    return write


def _cell(value: object) -> str | None:
    """Text as it is, nothing for null, all else as JSON."""
    if value is None or (isinstance(value, str) and not isinstance(value, Number)):
        return value
    return to_json(value)
