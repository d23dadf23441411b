"""Compressed files and pipes, known by their first bytes, as plain streams of bytes."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO, Final, Literal, cast

from assay.adapters.files.damage import DamagedStream
from assay.adapters.files.gzip_members import MAGIC as GZIP
from assay.adapters.files.gzip_members import gzip_pieces
from assay.adapters.files.zstd_frames import MAGIC as ZSTD
from assay.adapters.files.zstd_frames import is_skippable, zstd_pieces

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

Compression = Literal["gzip", "zstd"]
_SUFFIXES: Final = (".gz", ".gzip", ".zst", ".zstd")


def plain_name(file: str) -> str:
    """The name of a file without the ending that its compression gave it."""
    lower = file.lower()
    return next((file[: -len(suffix)] for suffix in _SUFFIXES if lower.endswith(suffix)), file)


def sniff(raw: BinaryIO) -> tuple[bytes, Compression | None]:
    """The first bytes of a stream, no more than tell, and how it is compressed."""
    start = b""
    while len(start) < 4:
        block = raw.read(1)
        start += block
        if start == GZIP:
            return start, "gzip"
        if not block or not any(magic.startswith(start) for magic in (GZIP, ZSTD, _skippable(start))):
            return start, None
    return start, "zstd"


def _skippable(start: bytes) -> bytes:
    magic = start[:1] + b"\x2a\x4d\x18"
    return magic if is_skippable(magic) else b""


class Replayed(io.RawIOBase):
    """A raw stream with the bytes in front that were read already."""

    def __init__(self, start: bytes, raw: io.RawIOBase) -> None:
        self._start = start
        self._raw = raw

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        if not self._start:
            return self._raw.readinto(view) or 0
        count = min(len(view), len(self._start))
        view[:count], self._start = self._start[:count], self._start[count:]
        # Whoever peeks at the stream sees more than what told the compression.
        return count + (self._raw.readinto(view[count:]) or 0) if count < len(view) else count

    def close(self) -> None:
        self._raw.close()
        super().close()


class Decompressed(io.RawIOBase):
    """The decompressed bytes of a stream. Reading raises `DamagedStream` behind the last one that is usable.

    With `usable`, the stream ends there in any case: the error is known from an earlier pass.
    """

    def __init__(
        self, raw: io.RawIOBase, compression: Compression, known: DamagedStream | None = None
    ) -> None:
        self._raw = io.BufferedReader(raw, 1 << 16)
        pieces = gzip_pieces if compression == "gzip" else zstd_pieces
        self._pieces: Iterator[bytes] = pieces(cast(BinaryIO, self._raw))
        self._known = known if known is not None and known.usable is not None else None
        self._piece = memoryview(b"")
        self._handed = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        while not self._piece:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._piece = memoryview(piece)
        count = min(len(view), len(self._piece))
        if self._known is not None and self._known.usable is not None:
            count = min(count, self._known.usable - self._handed)
            if count == 0:
                raise self._known
        view[:count] = self._piece[:count]
        self._piece = self._piece[count:]
        self._handed += count
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


def plain(raw: io.RawIOBase, known: DamagedStream | None = None) -> io.RawIOBase:
    """The stream, decompressed where its first bytes say that it is compressed."""
    start, compression = sniff(cast(BinaryIO, raw))
    whole: io.RawIOBase = Replayed(start, raw) if start else raw
    return whole if compression is None else Decompressed(whole, compression, known)
