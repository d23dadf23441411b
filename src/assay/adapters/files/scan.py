"""One pass over a file before it is read: its fingerprint, its number of items, its header."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, NamedTuple

from assay.adapters.files.arrow import Arrow
from assay.adapters.files.compressed import Decompressed, plain, plain_name
from assay.adapters.files.csv_rows import read_header, rows
from assay.adapters.files.damage import DamagedStream
from assay.adapters.files.jsonl import WHITE, filled_lines
from assay.adapters.files.lines import BOM
from assay.adapters.files.parquet import MAGIC as PARQUET
from assay.adapters.files.parquet import row_count
from assay.domain.failures import ConfigurationError
from assay.domain.record_mapping import SourceRules

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

Format = Literal["jsonl", "csv", "parquet"]
_BUFFER = 1 << 18
_BY_SUFFIX: dict[str, Format] = {
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}


class FileState(NamedTuple):
    """What changes when a file does."""

    device: int
    inode: int
    size: int
    modified_ns: int


@dataclass(frozen=True, slots=True)
class Scan:
    """What is known of a file: format, SHA-256 (hex) of its bytes as they lie there, number of items, state.

    `compressed` tells that its bytes are not those of its items. `damage` is what ends the reading behind the
    last of the `total` items.
    """

    format: Format
    fingerprint: str
    total: int
    state: FileState
    header: list[str]
    compressed: bool = False
    damage: DamagedStream | None = None


def file_state(path: Path) -> FileState:
    """The state of the file that the path names now. Raises `OSError`."""
    found = os.stat(path)
    return FileState(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


class Tapped(io.RawIOBase):
    """A raw stream that shows its reader's caller every block: `before` a read and what was `seen`."""

    def __init__(self, raw: io.RawIOBase) -> None:
        self._raw = raw

    def before(self) -> None:
        """Called before the next block is asked for."""

    def seen(self, block: memoryview) -> None:
        """Called with each block that was read."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        self.before()
        count = self._raw.readinto(buffer) or 0
        self.seen(memoryview(buffer)[:count])
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Hashed(Tapped):
    def __init__(self, raw: io.RawIOBase) -> None:
        super().__init__(raw)
        self.digest = hashlib.sha256()

    def seen(self, block: memoryview) -> None:
        self.digest.update(block)

    def finish(self) -> None:
        """Reads what is left: the fingerprint is that of the whole file."""
        while self.read(_BUFFER):
            pass


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turns what the file system says about a path into one clear sentence."""
    try:
        yield
    except FileNotFoundError:
        raise ConfigurationError(f"There is no file {path}; check the name.") from None
    except IsADirectoryError:
        raise ConfigurationError(f"{path} is a directory; name a file in it.") from None
    except PermissionError:
        raise ConfigurationError(f"{path} may not be read by this user; change its permissions.") from None


def buffered(raw: io.RawIOBase) -> io.BufferedReader:
    """The stream with a buffer for line reading."""
    return io.BufferedReader(raw, _BUFFER)


def detect_format(path: Path | None, stream: io.BufferedReader, file: str) -> Format:
    """By the file's suffix, else by its first bytes: Parquet by its mark, JSONL by a brace.

    Raises `ConfigurationError` for a JSON array, which is no line-by-line format.
    """
    suffix = "" if path is None else Path(plain_name(path.name)).suffix.lower()
    if suffix in _BY_SUFFIX:
        return _BY_SUFFIX[suffix]
    first = stream.peek(1)
    start = first.removeprefix(BOM).lstrip(WHITE)
    if start.startswith(b"["):
        raise ConfigurationError(f"{file} starts like a JSON array; write one JSON object per line (JSONL).")
    if first.startswith(PARQUET):
        return "parquet"
    return "jsonl" if start.startswith(b"{") else "csv"


def scan(path: Path, format: Format | None, rules: SourceRules) -> Scan:
    """Reads the whole file once, in bounded memory. Raises `ConfigurationError` where it cannot be read."""
    with readable(path):
        state = file_state(path)
        hashed = _Hashed(io.FileIO(path))
    damage: DamagedStream | None = None
    header: list[str] = []
    raw = plain(hashed)
    counted = Counted()
    with buffered(raw) as stream:
        try:
            kind = format or detect_format(path, stream, path.name)
            if kind != "parquet":
                header = counted.read(stream, kind, path.name, rules.max_record_bytes)
        except DamagedStream as found:
            damage, kind = found, format or "jsonl"
        hashed.finish()
    total = row_count(path, Arrow("Parquet"), rules) if kind == "parquet" else counted.total
    if damage is not None and damage.usable is not None:
        total = _usable_items(path, damage, kind, rules)
    if file_state(path) != state:
        raise changed(path.name)
    compressed = isinstance(raw, Decompressed)
    return Scan(kind, hashed.digest.hexdigest(), total, state, header, compressed, damage)


def changed(file: str) -> ConfigurationError:
    """The error for a file that is not what it was when its fingerprint was taken."""
    return ConfigurationError(f"{file} changed while it was read; run again when nothing writes to it.")


def _usable_items(path: Path, damage: DamagedStream, kind: Format, rules: SourceRules) -> int:
    """Items before the place up to which the data can be trusted."""
    counted = Counted()
    with buffered(plain(io.FileIO(path), damage)) as stream, suppress(DamagedStream):
        counted.read(stream, kind, path.name, rules.max_record_bytes)
    return counted.total


class Counted:
    """Counts items; what was counted before an error stays."""

    def __init__(self) -> None:
        self.total = 0

    def read(self, stream: BinaryIO, kind: Format, file: str, max_bytes: int) -> list[str]:
        """Reads to the end; the header of a CSV file."""
        if kind == "jsonl":
            for _ in filled_lines(stream, max_bytes):
                self.total += 1
            return []
        found = rows(stream, max_bytes)
        header = read_header(next(found, None), file)
        for _ in found:
            self.total += 1
        return header
