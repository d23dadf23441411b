"""Standard input or another pipe as a source: read once, nothing known of it in advance."""

from __future__ import annotations

import io
from collections.abc import AsyncGenerator, Generator, Sequence
from pathlib import Path

from assay.adapters.files.compressed import plain
from assay.adapters.files.csv_rows import read_csv
from assay.adapters.files.damage import DamagedStream, damaged
from assay.adapters.files.jsonl import read_jsonl
from assay.adapters.files.read_ahead import Batches
from assay.adapters.files.scan import Format, Tapped, buffered, detect_format
from assay.domain.failures import ConfigurationError
from assay.domain.identity import SourceItem
from assay.domain.record_mapping import SourceRules
from assay.domain.records import ParsedItem
from assay.pipeline.fetching import Documents, with_documents


class StreamSource:
    """A pipe. It may be compressed; Parquet cannot be read from one."""

    fingerprint: str | None = None
    total: int | None = None

    def __init__(
        self,
        descriptor: int,
        path: Path | None,
        format: Format | None,
        rules: SourceRules,
        documents: Documents | None,
    ) -> None:
        self._raw: io.FileIO | None = io.FileIO(descriptor)
        self._path = path
        self._format = format
        self._rules = rules
        self._documents = documents

    @property
    def name(self) -> str:
        return self._rules.name

    def read(self, start: int = 0) -> AsyncGenerator[Sequence[SourceItem], None]:
        """Batches of the items from offset `start` on, handed over before each wait for more input."""
        if self._raw is None:
            raise ConfigurationError(f"{self.name} was read already and cannot be read again; give a file.")
        raw, self._raw = self._raw, None
        batches = Batches()
        items = batches.read(lambda: self._items(_Flushing(raw, batches), start))
        return with_documents(items, self._documents)

    def _items(self, raw: Tapped, start: int) -> Generator[ParsedItem, None, None]:
        try:
            with buffered(plain(raw)) as stream:
                kind = self._format or detect_format(self._path, stream, self.name)
                if kind == "parquet":
                    raise ConfigurationError(
                        f"Parquet cannot be read from a pipe ({self.name}); write it to a file."
                    )
                read = read_csv if kind == "csv" else read_jsonl
                yield from read(stream, self._rules, start)
        except DamagedStream as found:
            raise damaged(self.name, found.reason) from None


class _Flushing(Tapped):
    def __init__(self, raw: io.FileIO, batches: Batches) -> None:
        super().__init__(raw)
        self._batches = batches

    def before(self) -> None:
        self._batches.flush()
