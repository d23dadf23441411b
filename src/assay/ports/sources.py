"""Sources with offsets, and what is known of their content."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from assay.domain.identity import SourceItem


class SourcePort(Protocol):
    """An ordered stream of records with offsets: a file, standard input, later a topic partition.

    `name` is what records carry as `source`. `fingerprint` identifies the content (SHA-256 hex), so that
    a checkpoint is never applied to other content; None where it cannot be known (standard input).
    `total` is the number of records where it is cheap to know. `read(start)` yields items whose offset
    is `start` or more, in offset order, offsets without gaps.
    """

    @property
    def name(self) -> str: ...

    @property
    def fingerprint(self) -> str | None: ...

    @property
    def total(self) -> int | None: ...

    def read(self, start: int = 0) -> AsyncIterator[Sequence[SourceItem]]: ...


@dataclass(frozen=True, slots=True)
class Content:
    """What identifies the content of a source: SHA-256 (hex) of its bytes, its number of items, its bytes."""

    fingerprint: str
    total: int
    size: int


@runtime_checkable
class GrowingSource(Protocol):
    """A source whose content may be an earlier content with more behind it: a file that was appended to.

    `content` is what is known by now; while a file is followed it grows, and it always covers the items that
    `read` has handed over. `starts_with` proves that the earlier content is a whole number of items at the
    start of this one, so that offsets and checkpoints of it hold here. `successor` is the source that took
    this one's place (a rotated file), None where there is none; asked for once `read` has ended.
    """

    @property
    def content(self) -> Content: ...

    async def starts_with(self, earlier: Content) -> bool: ...

    async def successor(self) -> SourcePort | None: ...


class ContentStorePort(Protocol):
    """Registered contents of sources.

    `register` returns the id of this content under this name and mapping: the one it has, or that of the
    longest earlier content that `starts_with` proves to be its start, or a new one. `extend` notes that the
    content of `source_id` has grown from `earlier` to `later`; False when somebody else changed it meanwhile.
    """

    async def register(
        self,
        *,
        kind: str,
        name: str,
        mapping: str,
        content: Content,
        starts_with: Callable[[Content], Awaitable[bool]],
    ) -> int: ...

    async def extend(self, source_id: int, earlier: Content, later: Content) -> bool: ...
