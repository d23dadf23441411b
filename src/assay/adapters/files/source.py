"""Opens a file or standard input as a source of records."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

from assay.adapters.files.csv_rows import read_csv
from assay.adapters.files.jsonl import read_jsonl
from assay.adapters.files.mapping import SourceRules, check_mapping, csv_layout
from assay.adapters.files.read_ahead import Batches, in_thread
from assay.adapters.files.scan import (
    Format,
    Scan,
    Tapped,
    buffered,
    changed,
    detect_format,
    file_state,
    readable,
    scan,
)
from assay.domain.failures import ConfigurationError
from assay.domain.identity import SourceItem
from assay.ports import SourcePort

MAX_RECORD_BYTES: Final = 8 << 20
STANDARD_INPUT: Final = "-"


async def open_source(
    spec: str,
    *,
    format: Literal["auto", "jsonl", "csv"] = "auto",
    mapping: Mapping[str, str] | None = None,
    name: str | None = None,
    max_record_bytes: int = MAX_RECORD_BYTES,
    standard_input: int | None = None,
) -> SourcePort:
    """The source that `spec` names: a path, or `-` for standard input.

    `mapping` is field to column, see `mapping.parse_mapping`. `name` is what records carry as `source`
    (default: the file's name, `stdin` for standard input). A record of more than `max_record_bytes` is
    malformed and its bytes are kept up to there. A regular file is read once here, for its fingerprint
    and its number of records; a pipe cannot be. `standard_input` is a file descriptor (default: 0).

    Raises `ConfigurationError` for a file that cannot be read, is empty or lacks a column.
    """
    columns = dict(mapping or {})
    check_mapping(columns)
    kind: Format | None = None if format == "auto" else format
    rules = SourceRules(
        name or ("stdin" if spec == STANDARD_INPUT else Path(spec).name), columns, max_record_bytes
    )
    if spec == STANDARD_INPUT:
        descriptor = os.dup(0 if standard_input is None else standard_input)
        return StreamSource(descriptor, None, kind, rules)
    path = Path(spec)
    with readable(path):
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError
        if not stat.S_ISREG(mode):
            descriptor = await in_thread(lambda: os.open(path, os.O_RDONLY))
            return StreamSource(descriptor, path, kind, rules)
    found = await in_thread(lambda: scan(path, kind, max_record_bytes))
    if found.format == "csv":
        csv_layout(found.header, columns, path.name)
    if not found.total:
        below = " below its header" if found.header else ""
        raise ConfigurationError(f"{path.name} holds no records{below}; give a file with records.")
    return FileSource(path, found, rules)


class FileSource:
    """A regular file. It can be read again, from any offset; a change of the file is an error."""

    def __init__(self, path: Path, found: Scan, rules: SourceRules) -> None:
        self._path = path
        self._scan = found
        self._rules = rules

    @property
    def name(self) -> str:
        return self._rules.name

    @property
    def fingerprint(self) -> str | None:
        return self._scan.fingerprint

    @property
    def total(self) -> int | None:
        return self._scan.total

    def read(self, start: int = 0) -> AsyncGenerator[Sequence[SourceItem], None]:
        """Batches of the items from offset `start` on."""
        return Batches(self._check).read(lambda: self._items(start))

    def _items(self, start: int) -> Generator[SourceItem, None, None]:
        with readable(self._path), buffered(io.FileIO(self._path)) as stream:
            self._check()
            yield from _parse(stream, self._scan.format, self._rules, start)
            self._check()

    def _check(self) -> None:
        with readable(self._path):
            if file_state(self._path) != self._scan.state:
                raise changed(self._path.name)


class StreamSource:
    """Standard input or another pipe: read once, nothing known of it in advance."""

    fingerprint: str | None = None
    total: int | None = None

    def __init__(self, descriptor: int, path: Path | None, format: Format | None, rules: SourceRules) -> None:
        self._raw: io.FileIO | None = io.FileIO(descriptor)
        self._path = path
        self._format = format
        self._rules = rules

    @property
    def name(self) -> str:
        return self._rules.name

    def read(self, start: int = 0) -> AsyncGenerator[Sequence[SourceItem], None]:
        """Batches of the items from offset `start` on, handed over before each wait for more input."""
        if self._raw is None:
            raise ConfigurationError(f"{self.name} was read already and cannot be read again; give a file.")
        raw, self._raw = self._raw, None
        batches = Batches()
        return batches.read(lambda: self._items(_Flushing(raw, batches), start))

    def _items(self, raw: Tapped, start: int) -> Generator[SourceItem, None, None]:
        with buffered(raw) as stream:
            kind = self._format or detect_format(self._path, stream, self.name)
            yield from _parse(stream, kind, self._rules, start)


class _Flushing(Tapped):
    def __init__(self, raw: io.FileIO, batches: Batches) -> None:
        super().__init__(raw)
        self._batches = batches

    def before(self) -> None:
        self._batches.flush()


def _parse(
    stream: io.BufferedReader, format: Format, rules: SourceRules, start: int
) -> Generator[SourceItem, None, None]:
    read = read_csv if format == "csv" else read_jsonl
    yield from read(stream, rules, start)
