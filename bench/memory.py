"""The memory of processes that are not the bench's own, read from /proc."""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from bench.processes import size_in, tree

_EVERY: Final = 0.5


def pss_of(root: int) -> int:
    """The memory of a process and its descendants in bytes, where what they share counts once."""
    return sum(size_in(Path(f"/proc/{pid}/smaps_rollup"), "Pss:") for pid in tree(root))


class MemoryWatch:
    """Looks twice a second how much memory a tree of processes has; `most` is the largest sum seen."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="bench-memory", daemon=True)
        self.most = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join()
        self.most = max(self.most, pss_of(self._root))

    def _watch(self) -> None:
        while not self._end.wait(_EVERY):
            self.most = max(self.most, pss_of(self._root))
