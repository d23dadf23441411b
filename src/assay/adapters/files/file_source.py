"""A regular file as a source: it can be read again from any offset, and a change of it is an error."""

from __future__ import annotations

import io
from collections.abc import AsyncGenerator, Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from assay.adapters.files.compressed import plain
from assay.adapters.files.csv_rows import read_csv
from assay.adapters.files.damage import DamagedStream, damaged
from assay.adapters.files.jsonl import read_jsonl
from assay.adapters.files.parquet import read_parquet
from assay.adapters.files.prefix import starts_with
from assay.adapters.files.read_ahead import Batches, in_thread
from assay.adapters.files.scan import Scan, buffered, changed, file_state, readable
from assay.domain.identity import SourceItem
from assay.domain.record_mapping import SourceRules
from assay.pipeline.fetching import Documents, with_documents
from assay.ports import Content

if TYPE_CHECKING:
    from assay.domain.records import ParsedItem
    from assay.ports import SourcePort


class FileSource:
    """A file that was scanned. One that is damaged is read up to there; then its error is raised."""

    def __init__(self, path: Path, found: Scan, rules: SourceRules, documents: Documents | None) -> None:
        self._path = path
        self._scan = found
        self._rules = rules
        self._documents = documents

    @property
    def name(self) -> str:
        return self._rules.name

    @property
    def fingerprint(self) -> str | None:
        return self._scan.fingerprint

    @property
    def total(self) -> int | None:
        return self._scan.total

    @property
    def content(self) -> Content:
        return Content(self._scan.fingerprint, self._scan.total, self._scan.state.size)

    async def starts_with(self, earlier: Content) -> bool:
        """Never for compressed files and Parquet: their bytes say nothing about where an item ends."""
        if self._scan.compressed or earlier.size >= self._scan.state.size:
            return False
        return await in_thread(lambda: starts_with(self._path, self._scan.format, self._rules, earlier))

    async def successor(self) -> SourcePort | None:
        return None

    def read(self, start: int = 0) -> AsyncGenerator[Sequence[SourceItem], None]:
        """Batches of the items from offset `start` on."""
        return with_documents(Batches(self._check).read(lambda: self._items(start)), self._documents)

    def _items(self, start: int) -> Generator[ParsedItem, None, None]:
        self._check()
        if self._scan.format == "parquet":
            yield from read_parquet(self._path, self._rules, start)
        else:
            yield from self._parsed(start)
        self._check()

    def _parsed(self, start: int) -> Generator[ParsedItem, None, None]:
        read = read_csv if self._scan.format == "csv" else read_jsonl
        try:
            with readable(self._path), buffered(plain(io.FileIO(self._path), self._scan.damage)) as stream:
                yield from read(stream, self._rules, start)
        except DamagedStream as found:
            self._check()
            raise damaged(self._path.name, found.reason) from None

    def _check(self) -> None:
        with readable(self._path):
            if file_state(self._path) != self._scan.state:
                raise changed(self._path.name)
