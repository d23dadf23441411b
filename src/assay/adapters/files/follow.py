"""A growing JSONL file, followed as `tail -F` does.

Only whole lines are read: a line without its end is waited for. At the end of the file a thread looks again
every `poll` seconds. A file that another one took the place of (another inode) is read to its end first, one
that got shorter was emptied; either ends this source, and `successor` opens what is there now.
"""

from __future__ import annotations

import io
import os
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from assay.adapters.files.growing import GrowingBytes, HashedLines
from assay.adapters.files.jsonl import filled_lines, read_jsonl
from assay.adapters.files.prefix import starts_with
from assay.adapters.files.read_ahead import Batches, in_thread
from assay.adapters.files.scan import readable
from assay.domain.failures import ConfigurationError
from assay.domain.identity import InputRecord, SourceItem
from assay.domain.record_mapping import SourceRules
from assay.domain.records import ParsedItem, Referenced
from assay.pipeline.fetching import Documents, with_documents
from assay.ports import Content, SourcePort

POLL_SECONDS: Final = 0.5
_QUIET_POLLS: Final = 2
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Following:
    """How a file is followed: seconds between two looks, and whom a rotation is told."""

    poll: float = POLL_SECONDS
    say: Say = lambda _: None


async def open_followed(
    path: Path, rules: SourceRules, documents: Documents | None, following: Following
) -> FollowedFile:
    """The file as a source that does not end. Raises `ConfigurationError` where it cannot be read."""

    def opened() -> FollowedFile:
        with readable(path):
            raw = io.FileIO(path)
        if not path.is_file():
            raw.close()
            raise ConfigurationError(f"{path} is no file; only a file can be followed.")
        return FollowedFile(path, raw, rules, documents, following)

    return await in_thread(opened)


class FollowedFile:
    """One file behind a name, until it is replaced or emptied."""

    total: int | None = None

    def __init__(
        self,
        path: Path,
        raw: io.FileIO,
        rules: SourceRules,
        documents: Documents | None,
        following: Following,
    ) -> None:
        self._path = path
        self._raw = raw
        self._rules = rules
        self._documents = documents
        self._following = following
        self._start = content_of(raw, rules.max_record_bytes)
        self._content = self._start
        self._bytes = GrowingBytes(raw, self._wait)
        self._lines = HashedLines(self._bytes)
        self._items_read = 0
        self._by_line = False
        self._left_behind = False
        self._batches: Batches | None = None
        self._tick = threading.Event()

    @property
    def name(self) -> str:
        return self._rules.name

    @property
    def fingerprint(self) -> str | None:
        return self._content.fingerprint

    @property
    def content(self) -> Content:
        return self._content

    async def starts_with(self, earlier: Content) -> bool:
        if earlier.size > self._start.size:
            return False
        return await in_thread(lambda: starts_with(self._path, "jsonl", self._rules, earlier))

    async def successor(self) -> SourcePort | None:
        """The file that has the name now, waited for where there is none yet."""
        if not self._over:
            return None
        if self._by_line:
            raise ConfigurationError(
                f"{self.name} was replaced, and its lines carry no ids of their own: those of the new one "
                "would get the same; name the column of the id (--map record_id=COLUMN), or follow the "
                "new file under another --source-name."
            )
        self._following.say(f"{self.name} was replaced or emptied; going on with the new file.")
        while not await in_thread(self._path.is_file):
            await in_thread(lambda: self._tick.wait(self._following.poll))
        return await open_followed(self._path, self._rules, self._documents, self._following)

    @property
    def _over(self) -> bool:
        """Whether another content has taken the name."""
        return self._left_behind or self._bytes.emptied

    def read(self, start: int = 0) -> AsyncGenerator[Sequence[SourceItem], None]:
        """Batches of the items from offset `start` on, handed over before each wait for more."""
        self._batches = Batches(self._note)
        return with_documents(self._batches.read(lambda: self._items(start)), self._documents)

    def _items(self, start: int) -> Generator[ParsedItem, None, None]:
        with closing(self._raw):
            for item in read_jsonl(self._lines, self._rules, start):
                if not self._lines.whole and not self._over:
                    return  # a stop in the middle of a line, which is still being written
                self._by_line = self._by_line or _named_by_line(item)
                self._items_read = item.position.offset + 1
                yield item

    def _note(self) -> None:
        """What was read is the content by now, before any of it is handed over."""
        fingerprint, size = self._lines.content(to_the_end=self._over)
        if size > self._content.size:
            self._content = Content(fingerprint, self._items_read, size)

    def _wait(self) -> bool:
        """Called at the end of the file: whether to look again."""
        batches = self._batches
        if batches is not None:
            batches.flush()
        if batches is None or batches.stopped:
            return False
        if self._replaced():
            self._left_behind = True
            return False
        self._tick.wait(self._following.poll)
        return True

    def _replaced(self) -> bool:
        if self._bytes.quiet < _QUIET_POLLS:
            return False  # who writes may hold the old file a little longer
        mine = os.fstat(self._raw.fileno())
        try:
            named = os.stat(self._path)
        except FileNotFoundError:
            return True
        return (named.st_dev, named.st_ino) != (mine.st_dev, mine.st_ino)


def _named_by_line(item: ParsedItem) -> bool:
    return (
        isinstance(item, InputRecord | Referenced) and item.record_id == f"{item.source}:{item.position.line}"
    )


def content_of(raw: io.FileIO, max_bytes: int) -> Content:
    """The content of a file up to the end of its last whole line."""
    lines = HashedLines(GrowingBytes(raw, lambda: False))
    total = sum(1 for _ in filled_lines(lines, max_bytes) if lines.whole)
    fingerprint, size = lines.content()
    return Content(fingerprint, total, size)
