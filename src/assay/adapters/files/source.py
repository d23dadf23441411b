"""Opens files, patterns of files and standard input as sources of records."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from assay.adapters.files.damage import damaged
from assay.adapters.files.file_source import FileSource
from assay.adapters.files.follow import Following, open_followed
from assay.adapters.files.mapping import layout_of
from assay.adapters.files.patterns import STANDARD_INPUT, expand
from assay.adapters.files.read_ahead import in_thread
from assay.adapters.files.scan import Format, readable, scan
from assay.adapters.files.stream_source import StreamSource
from assay.domain.failures import ConfigurationError
from assay.domain.record_mapping import SourceRules, check_mapping
from assay.pipeline.fetching import Documents
from assay.ports import SourcePort

MAX_RECORD_BYTES: Final = 8 << 20
ChosenFormat = Literal["auto", "jsonl", "csv", "parquet"]


@dataclass(frozen=True, slots=True)
class Reading:
    """How sources are read.

    `mapping` is field to column, see `mapping.parse_mapping`. `name` is what records carry as `source`
    (default: the file's name, `stdin` for standard input). A record of more than `max_record_bytes` is
    malformed and its bytes are kept up to there. `documents`: records may refer to their text. `following`:
    the file is followed. `standard_input` is a file descriptor (default: 0).
    """

    format: ChosenFormat = "auto"
    mapping: Mapping[str, str] = field(default_factory=dict)
    name: str | None = None
    max_record_bytes: int = MAX_RECORD_BYTES
    documents: Documents | None = None
    following: Following | None = None
    standard_input: int = 0


async def open_sources(inputs: Sequence[str], reading: Reading) -> list[SourcePort]:
    """One source for each file that `inputs` name, see `patterns.expand`; all are opened before any is read.

    Raises `ConfigurationError` for what `expand` and `open_one` refuse.
    """
    paths = await in_thread(lambda: expand(inputs, source_name=reading.name))
    if reading.following is not None and len(paths) > 1:
        raise ConfigurationError("--follow is for one file; follow each in a run of its own.")
    return [await open_one(path, reading) for path in paths]


async def open_source(
    spec: str,
    *,
    format: ChosenFormat = "auto",
    mapping: Mapping[str, str] | None = None,
    name: str | None = None,
    max_record_bytes: int = MAX_RECORD_BYTES,
    standard_input: int | None = None,
) -> SourcePort:
    """One source by itself, see `open_one` and `Reading`."""
    return await open_one(
        spec,
        Reading(
            format=format, mapping=dict(mapping or {}), name=name, max_record_bytes=max_record_bytes,
            standard_input=0 if standard_input is None else standard_input,
        ),
    )  # fmt: skip


async def open_one(spec: str, reading: Reading) -> SourcePort:
    """The source that `spec` names: a path, or `-` for standard input.

    A regular file is read once here, for its fingerprint and its number of records; a pipe cannot be. Raises
    `ConfigurationError` for a file that cannot be read, is empty or lacks a column, `AssayError` for a
    compressed one that is broken from the start.
    """
    rules = _rules(spec, reading)
    kind: Format | None = None if reading.format == "auto" else reading.format
    if reading.following is not None:
        return await _follow(spec, kind, rules, reading.documents, reading.following)
    if spec == STANDARD_INPUT:
        return StreamSource(os.dup(reading.standard_input), None, kind, rules, reading.documents)
    path = Path(spec)
    with readable(path):
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError
        if not stat.S_ISREG(mode):
            descriptor = await in_thread(lambda: os.open(path, os.O_RDONLY))
            return StreamSource(descriptor, path, kind, rules, reading.documents)
    found = await in_thread(lambda: scan(path, kind, rules))
    if found.damage is not None and not found.total:
        raise damaged(path.name, found.damage.reason)
    if found.format == "csv":
        layout_of(found.header, rules.mapping, path.name, documents=rules.documents)
    if not found.total:
        below = " below its header" if found.header else ""
        raise ConfigurationError(f"{path.name} holds no records{below}; give a file with records.")
    return FileSource(path, found, rules, reading.documents)


async def _follow(
    spec: str, kind: Format | None, rules: SourceRules, documents: Documents | None, following: Following
) -> SourcePort:
    if spec == STANDARD_INPUT:
        raise ConfigurationError("Standard input is read as it comes; leave --follow out.")
    if kind not in (None, "jsonl") or Path(spec).suffix.lower() in (".csv", ".parquet", ".gz", ".zst"):
        raise ConfigurationError("--follow reads JSONL as it is written; other formats have an end.")
    return await open_followed(Path(spec), rules, documents, following)


def _rules(spec: str, reading: Reading) -> SourceRules:
    columns = dict(reading.mapping)
    check_mapping(columns)
    if columns.get("document_ref") and reading.documents is None:
        raise ConfigurationError("A column of documents was mapped; say where they lie: --documents-root.")
    name = reading.name or ("stdin" if spec == STANDARD_INPUT else Path(spec).name)
    return SourceRules(name, columns, reading.max_record_bytes, documents=reading.documents is not None)
