"""gzip (RFC 1952): members one after the other, each with its own check sum.

Header and trailer are read here and the body as raw deflate, so that a wrong check sum is told from a broken
body by its place, not by a message. Output comes in bounded pieces, whatever a few bytes of input unfold to.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import BinaryIO, Final

from assay.adapters.files.damage import DamagedStream

MAGIC: Final = b"\x1f\x8b"
_INPUT: Final = 1 << 16
_OUTPUT: Final = 1 << 18
_CUT: Final = "ends in the middle of its gzip data"
_BROKEN: Final = "holds broken gzip data"
_HEADER_CRC, _EXTRA, _NAME, _COMMENT = 2, 4, 8, 16


class _Input:
    """Compressed bytes with what was read too far put back."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._left = b""

    def some(self) -> bytes:
        taken, self._left = self._left, b""
        return taken or self._raw.read(_INPUT)

    def put_back(self, data: bytes) -> None:
        self._left = data + self._left

    def exactly(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            block = self.some()
            if not block:
                raise DamagedStream(_CUT)
            found += block
        self.put_back(found[size:])
        return found[:size]

    def pass_text(self) -> None:
        """Passes over a field that ends in a zero byte."""
        while True:
            block = self.some()
            if not block:
                raise DamagedStream(_CUT)
            _, zero, rest = block.partition(b"\0")
            if zero:
                self.put_back(rest)
                return


def gzip_pieces(raw: BinaryIO) -> Iterator[bytes]:
    """The decompressed bytes of all members. Zero bytes behind the last one are padding.

    Raises `DamagedStream` after everything that could be decompressed.
    """
    compressed = _Input(raw)
    produced, members = 0, 0
    while _begins(compressed, first=members == 0):
        members += 1
        _pass_header(compressed)
        start, check = produced, 0
        for piece in _body(compressed):
            produced += len(piece)
            check = zlib.crc32(piece, check)
            yield piece
        trailer = compressed.exactly(8)
        size = (produced - start) & 0xFFFFFFFF
        if trailer != check.to_bytes(4, "little") + size.to_bytes(4, "little"):
            raise DamagedStream("holds gzip data that fails its check sum", start)


def _begins(compressed: _Input, *, first: bool) -> bool:
    """Whether another member begins here."""
    block = compressed.some()
    while block and not first and not block.strip(b"\0"):
        block = compressed.some()
    if not block:
        return False
    compressed.put_back(block if first else block.lstrip(b"\0"))
    return True


def _pass_header(compressed: _Input) -> None:
    header = compressed.exactly(10)
    flags = header[3]
    if not header.startswith(MAGIC) or header[2] != 8 or flags & 0xE0:
        raise DamagedStream("holds something behind its gzip data that is none")
    if flags & _EXTRA:
        compressed.exactly(int.from_bytes(compressed.exactly(2), "little"))
    for field in (_NAME, _COMMENT):
        if flags & field:
            compressed.pass_text()
    if flags & _HEADER_CRC:
        compressed.exactly(2)


def _body(compressed: _Input) -> Iterator[bytes]:
    """The pieces of one member. What comes before a broken byte is found by going byte by byte towards it."""
    inflate = zlib.decompressobj(-zlib.MAX_WBITS)
    data, step = b"", _INPUT
    while not inflate.eof:
        data = data or compressed.some()
        if not data:
            raise DamagedStream(_CUT)
        before = inflate.copy()
        try:
            piece = inflate.decompress(data[:step], _OUTPUT)
        except zlib.error:
            if step == 1:
                raise DamagedStream(_BROKEN) from None
            inflate, step = before, 1
            continue
        # At the end of the member both tails hold what follows it.
        data = (inflate.unused_data if inflate.eof else inflate.unconsumed_tail) + data[step:]
        if piece:
            yield piece
    compressed.put_back(data)
