"""Proof that a file starts with a content that was read before: it was appended to and nothing else."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import TYPE_CHECKING, Final

from assay.adapters.files.csv_rows import rows
from assay.adapters.files.scan import Format, buffered
from assay.domain.record_mapping import SourceRules
from assay.ports import Content

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_BLOCK: Final = 1 << 18


def starts_with(path: Path, kind: Format, rules: SourceRules, earlier: Content) -> bool:
    """Whether the file's first `earlier.size` bytes have the earlier fingerprint and end where an item ends.

    Then every offset of the earlier content is the same item here. Equal bytes are not enough: a last line
    without its end, or an open quote, may have become another item.
    """
    digest, last = hashlib.sha256(), b""
    with buffered(io.FileIO(path)) as stream:
        left = earlier.size
        while left and (block := stream.read(min(left, _BLOCK))):
            digest.update(block)
            left -= len(block)
            last = block[-1:]
    if left or digest.hexdigest() != earlier.fingerprint.partition("#")[0]:
        return False
    if earlier.size and last != b"\n":
        return False
    return kind == "jsonl" or (kind == "csv" and _ends_between_rows(path, rules, earlier))


def _ends_between_rows(path: Path, rules: SourceRules, earlier: Content) -> bool:
    """Whether the rows of the earlier content, its header among them, end with a whole one."""
    count, whole = 0, False
    with buffered(_Start(io.FileIO(path), earlier.size)) as stream:
        for row in rows(stream, rules.max_record_bytes):
            count += 1
            whole = row.error_type is None
    return whole and count == earlier.total + 1


class _Start(io.RawIOBase):
    """The first bytes of a stream."""

    def __init__(self, raw: io.FileIO, size: int) -> None:
        self._raw = raw
        self._left = size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")[: self._left]
        count = self._raw.readinto(view) or 0
        self._left -= count
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()
