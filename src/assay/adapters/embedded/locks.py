"""Advisory locks on files. They end with the process that holds them, however it ends."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

POLL_SECONDS = 0.02


class FileLock:
    """A `flock` on one file, held through a descriptor that no program started by us inherits.

    The lock belongs to the open file: two locks of one process exclude each other like those of two
    processes, and a kill frees it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def try_acquire(self, *, shared: bool = False) -> bool:
        """Take the lock now or say False. The file is created (0600) where it is missing."""
        mode = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB
        while True:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(descriptor, mode)
                current = _same_file(descriptor, self._path)
            except BlockingIOError:
                os.close(descriptor)
                return False
            except BaseException:
                os.close(descriptor)
                raise
            if current:
                self._descriptor = descriptor
                return True
            os.close(descriptor)  # the folder was removed and made again: this lock guards nothing

    def acquire(
        self,
        *,
        shared: bool = False,
        timeout: float | None = None,
        while_waiting: Callable[[float], None] | None = None,
    ) -> bool:
        """Wait for the lock, at most `timeout` seconds (None: for ever); False when time ran out.

        `while_waiting` is called with the seconds waited so far.
        """
        started = time.monotonic()
        while not self.try_acquire(shared=shared):
            waited = time.monotonic() - started
            if timeout is not None and waited >= timeout:
                return False
            if while_waiting is not None:
                while_waiting(waited)
            time.sleep(POLL_SECONDS)
        return True

    def fileno(self) -> int:
        """The descriptor that carries the lock."""
        if self._descriptor is None:
            raise ValueError(f"the lock {self._path.name} is not held")
        return self._descriptor

    def release(self) -> None:
        """Close our descriptor. A child that was handed the descriptor keeps the lock."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def held_exclusively(path: Path) -> bool:
    """True when a process holds the exclusive lock on `path`; two may ask at once."""
    return _refused(path, fcntl.LOCK_SH)


def held_at_all(path: Path) -> bool:
    """True when any process holds a lock on `path`, shared ones included."""
    return _refused(path, fcntl.LOCK_EX)


def _refused(path: Path, mode: int) -> bool:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _same_file(descriptor: int, path: Path) -> bool:
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    here = os.fstat(descriptor)
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)
