"""Zstandard (RFC 8878): frames one after the other, fed to the library block by block.

A block unfolds to 128 KiB at most, so memory is bounded; and a broken block takes nothing with it that came
before. The check sum of a frame is fed alone, so that a wrong one is told from a broken block by its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import BinaryIO, Final, Protocol

from assay.adapters.files.damage import DamagedStream
from assay.adapters.files.extras import extra

MAGIC: Final = b"\x28\xb5\x2f\xfd"
_CUT: Final = "ends in the middle of its zstd data"
_BROKEN: Final = "holds broken zstd data"
_WINDOW: Final = 1 << 27
_RLE: Final = 1
_RESERVED: Final = 3


class _Frame(Protocol):
    def decompress(self, data: bytes, /) -> bytes: ...


class _Library:
    """What makes a decompressor of one frame, and what it raises."""

    def __init__(self) -> None:
        self.frame: Callable[[], _Frame]
        self.error: type[Exception]
        try:
            built_in = import_module("compression.zstd")  # Python 3.14 and later
        except ImportError:
            module = extra("zstd", "zstandard", "Reading zstd")
            self.frame = lambda: module.ZstdDecompressor(max_window_size=_WINDOW).decompressobj()
            self.error = module.ZstdError
        else:
            self.frame = built_in.ZstdDecompressor
            self.error = built_in.ZstdError


def is_skippable(magic: bytes) -> bool:
    """Whether a frame that starts so holds no data (`pzstd` writes such frames)."""
    return len(magic) == 4 and magic[1:] == b"\x2a\x4d\x18" and magic[0] & 0xF0 == 0x50


def zstd_pieces(raw: BinaryIO) -> Iterator[bytes]:
    """The decompressed bytes of all frames, at most 128 KiB at a time.

    Raises `DamagedStream` after everything that could be decompressed, `ConfigurationError` where no library
    for zstd is installed.
    """
    library = _Library()
    produced = 0
    while magic := raw.read(4):
        if is_skippable(magic):
            _pass_over(raw, int.from_bytes(_exactly(raw, 4), "little"))
            continue
        if magic != MAGIC:
            raise DamagedStream(
                _CUT if len(magic) < 4 else "holds something behind its zstd data that is none"
            )
        start = produced
        for piece in _frame(raw, library, start):
            produced += len(piece)
            yield piece


def _frame(raw: BinaryIO, library: _Library, start: int) -> Iterator[bytes]:
    descriptor = _exactly(raw, 1)
    frame = library.frame()
    with_check_sum = bool(descriptor[0] & 4)

    def unfold(data: bytes) -> bytes:
        try:
            return frame.decompress(data)
        except library.error:
            raise DamagedStream(_BROKEN) from None

    unfold(MAGIC + descriptor + _exactly(raw, _header_rest(descriptor[0])))
    last = False
    while not last:
        head = _exactly(raw, 3)
        word = int.from_bytes(head, "little")
        last, kind, size = bool(word & 1), word >> 1 & 3, word >> 3
        if kind == _RESERVED:
            raise DamagedStream(_BROKEN)
        if piece := unfold(head + _exactly(raw, 1 if kind == _RLE else size)):
            yield piece
    if with_check_sum:
        try:
            frame.decompress(_exactly(raw, 4))
        except library.error:
            raise DamagedStream("holds zstd data that fails its check sum", start) from None


def _header_rest(descriptor: int) -> int:
    """Bytes of the frame header behind the descriptor: window, dictionary id and content size."""
    single = descriptor >> 5 & 1
    dictionary = (0, 1, 2, 4)[descriptor & 3]
    content = (single, 2, 4, 8)[descriptor >> 6]
    return (1 - single) + dictionary + content


def _exactly(raw: BinaryIO, size: int) -> bytes:
    found = raw.read(size)
    if len(found) < size:
        raise DamagedStream(_CUT)
    return found


def _pass_over(raw: BinaryIO, size: int) -> None:
    while size > 0:
        size -= len(_exactly(raw, min(size, 1 << 16)))
