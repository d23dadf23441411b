"""A file with one event a line, held by one process, whose last line is whole."""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

from assay.domain.failures import ConfigurationError

_START: Final = b'{"event_id":"'
_BLOCK: Final = 64 * 1024
# The longest line that is looked for; events are a few hundred bytes.
_LONGEST: Final = 16 * 1024 * 1024


class EventFile:
    """An event file, opened for appending, locked for this process until `close`.

    A line that a crash left unfinished is cut off, and `torn` is told how many bytes it had. Raises
    `ConfigurationError` for what is no event file, cannot be opened, or is in another publisher's hands.
    """

    def __init__(self, path: Path, torn: Callable[[int], None]) -> None:
        self._path = path
        self._descriptor = _opened(path)
        try:
            _hold(self._descriptor, path)
            _mend(self._descriptor, path, torn)
            _make_durable(path)
        except BaseException:
            os.close(self._descriptor)
            raise

    @property
    def current(self) -> bool:
        """Whether the path still leads to this file; not where somebody has moved it away."""
        try:
            there = self._path.stat()
        except FileNotFoundError:
            return False
        here = os.fstat(self._descriptor)
        return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)

    def append(self, lines: bytes) -> int:
        """Append whole lines and wait until they are on the disk; the byte at which they begin.

        Raises `OSError`; then nothing of them stays in the file, or it must be opened anew.
        """
        start = os.fstat(self._descriptor).st_size
        rest = memoryview(lines)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
            os.fsync(self._descriptor)
        except OSError:
            os.ftruncate(self._descriptor, start)
            raise
        return start

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)


def _opened(path: Path) -> int:
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags, 0o640)
    except OSError as error:
        raise ConfigurationError(
            f"The event file {path} cannot be opened ({error.strerror}); name one in a folder that "
            "exists and may be written to."
        ) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ConfigurationError(f"{path} is no ordinary file; name one for the events.")
    return descriptor


def _hold(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ConfigurationError(
            f"Another publisher writes to {path}; stop it or name another file."
        ) from None


def _mend(descriptor: int, path: Path, torn: Callable[[int], None]) -> None:
    """Cut off an unfinished last line."""
    size = os.fstat(descriptor).st_size
    end = _end_of_lines(descriptor, size)
    # A power cut may leave zeros where the last lines were to be: what was never on the disk never counted.
    while end and b"\x00" in _last_line(descriptor, end):
        end = _end_of_lines(descriptor, end - 1)
    tail = os.pread(descriptor, len(_START), end)
    fits = tail == _START[: len(tail)] or not tail.strip(b"\x00")
    if (end and not _is_event(_last_line(descriptor, end))) or not fits:
        raise ConfigurationError(
            f"{path} holds something other than events; name another file, or move this one away."
        )
    if end < size:
        os.ftruncate(descriptor, end)
        os.fsync(descriptor)
        torn(size - end)


def _end_of_lines(descriptor: int, end: int) -> int:
    """Where the last whole line ends, at `end` or before; 0 where there is none."""
    while end > 0:
        start = max(0, end - _BLOCK)
        found = os.pread(descriptor, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def _last_line(descriptor: int, end: int) -> bytes:
    start = _end_of_lines(descriptor, end - 1)
    return os.pread(descriptor, min(end - start, _LONGEST), start)


def _is_event(line: bytes) -> bool:
    if not line.startswith(_START):
        return False
    try:
        found = json.loads(line)
    except ValueError:
        return False
    return isinstance(found, dict) and {"event_id", "kind", "schema", "aggregate", "data"} <= found.keys()


def _make_durable(path: Path) -> None:
    """A file that was just made outlives a crash only once its folder is on the disk."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
