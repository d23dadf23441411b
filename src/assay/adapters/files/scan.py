"""One pass over a file before it is read: its fingerprint, its number of items, its header."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, NamedTuple

from assay.adapters.files.csv_rows import read_header, rows
from assay.adapters.files.jsonl import WHITE, filled_lines
from assay.adapters.files.lines import BOM
from assay.domain.failures import ConfigurationError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

Format = Literal["jsonl", "csv"]
_BUFFER = 1 << 18
_BY_SUFFIX: dict[str, Format] = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}


class FileState(NamedTuple):
    """What changes when a file does."""

    device: int
    inode: int
    size: int
    modified_ns: int


@dataclass(frozen=True, slots=True)
class Scan:
    """What is known of a file: format, SHA-256 (hex) of its bytes, number of items, state when scanned."""

    format: Format
    fingerprint: str
    total: int
    state: FileState
    header: list[str]


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
    """By the file's suffix, else by the first byte that is not white: JSONL starts with a brace.

    Raises `ConfigurationError` for a JSON array, which is no line-by-line format.
    """
    if path is not None and path.suffix.lower() in _BY_SUFFIX:
        return _BY_SUFFIX[path.suffix.lower()]
    start = stream.peek(1).removeprefix(BOM).lstrip(WHITE)
    if start.startswith(b"["):
        raise ConfigurationError(f"{file} starts like a JSON array; write one JSON object per line (JSONL).")
    return "jsonl" if start.startswith(b"{") else "csv"


def scan(path: Path, format: Format | None, max_bytes: int) -> Scan:
    """Reads the whole file once, in bounded memory. Raises `ConfigurationError` where it cannot be read."""
    with readable(path):
        state = file_state(path)
        hashed = _Hashed(io.FileIO(path))
    with buffered(hashed) as stream:
        kind = format or detect_format(path, stream, path.name)
        header, total = _count(stream, kind, path.name, max_bytes)
    if file_state(path) != state:
        raise changed(path.name)
    return Scan(kind, hashed.digest.hexdigest(), total, state, header)


def changed(file: str) -> ConfigurationError:
    """The error for a file that is not what it was when its fingerprint was taken."""
    return ConfigurationError(f"{file} changed while it was read; run again when nothing writes to it.")


def _count(stream: BinaryIO, kind: Format, file: str, max_bytes: int) -> tuple[list[str], int]:
    if kind == "jsonl":
        return [], sum(1 for _ in filled_lines(stream, max_bytes))
    found = rows(stream, max_bytes)
    header = read_header(next(found, None), file)
    return header, sum(1 for _ in found)
