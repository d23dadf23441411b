"""The bytes of a file that grows, and its lines with the fingerprint of those that are whole."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_HEAD: Final = 256
_BUFFER: Final = 1 << 18


class GrowingBytes(io.RawIOBase):
    """Reads on as the file grows. At its end `wait` is asked: False ends the stream.

    `quiet` counts how often in a row there was nothing new. `emptied` says that the stream ended because the
    file was emptied, even if it has grown beyond the old place since.
    """

    def __init__(self, raw: io.FileIO, wait: Callable[[], bool]) -> None:
        self._raw = raw
        self._wait = wait
        self._position = 0
        self._head = b""
        self.quiet = 0
        self.emptied = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        count = 0
        while not self.emptied:
            count = os.preadv(self._raw.fileno(), [view], self._position)
            # What comes after a pause is the same file's only if its start is.
            self.emptied = self.quiet > 0 and self.changed_below()
            if count or self.emptied:
                break
            if not self._wait():
                return 0
            self.quiet += 1
        if self.emptied:
            return 0
        if len(self._head) < _HEAD:
            self._head += bytes(view[: min(count, _HEAD - len(self._head))])
        self._position += count
        self.quiet = 0
        return count

    def changed_below(self) -> bool:
        """Whether the file was emptied: it is shorter than what was read, or starts with other bytes."""
        descriptor = self._raw.fileno()
        if os.fstat(descriptor).st_size < self._position:
            return True
        return os.pread(descriptor, len(self._head), 0) != self._head


class HashedLines:
    """Lines of a stream; `whole` tells whether the last one handed out had its end."""

    def __init__(self, raw: io.RawIOBase) -> None:
        self._stream = io.BufferedReader(raw, _BUFFER)
        self._digest = hashlib.sha256()
        self._size = 0
        self._at_line = self._digest.copy(), 0
        self.whole = True

    def readline(self, size: int, /) -> bytes:
        """The next line, or its next `size` bytes; b"" at the end of the stream."""
        part = self._stream.readline(size)
        if part:
            self._digest.update(part)
            self._size += len(part)
            self.whole = part.endswith(b"\n")
            if self.whole:
                self._at_line = self._digest.copy(), self._size
        return part

    def content(self, *, to_the_end: bool = False) -> tuple[str, int]:
        """SHA-256 (hex) and size in bytes of all whole lines handed out, or of all that was handed out."""
        digest, size = (self._digest, self._size) if to_the_end else self._at_line
        return digest.hexdigest(), size
