"""Several sources read one after the other in one run, each with its own checkpoint.

The rooms of a worker know one line of offsets. A group gives each of its sources a stretch of that line
(the source's place in the group, times 2^40), and the stores behind `GroupedClaims` and `GroupedSources` see
every source's own offsets again. Gaps between the stretches never hold back a commit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Final, TypeVar, cast
from uuid import UUID

from assay.domain.failures import AssayError, ConfigurationError
from assay.domain.identity import InputRecord, SourceItem, SourcePosition
from assay.domain.work import ClaimedTask, Claims, Isolation, LowPriority, Offer
from assay.ports import ClaimPort, Content, ContentStorePort, GrowingSource, SourcePort, SourceStorePort

_SHIFT: Final = 40
_LOCAL: Final = (1 << _SHIFT) - 1

T = TypeVar("T")


@dataclass(slots=True)
class _Member:
    """A source of the group: its id, where it is read from, and what it has handed out (`end`)."""

    source: SourcePort
    source_id: int
    start: int
    noted: Content | None
    end: int = 0


class SourceGroup:
    """The sources of a run as one. `begin` registers them; `read` is then called once, with 0."""

    fingerprint: str | None = None

    def __init__(
        self,
        sources: Sequence[SourcePort],
        store: SourceStorePort,
        contents: ContentStorePort,
        *,
        mapping: str,
        stream_id: Callable[[], UUID],
    ) -> None:
        if not sources:
            raise ConfigurationError("There is no input; name one with --input.")
        self._sources = sources
        self._store = store
        self._contents = contents
        self._mapping = mapping
        self._stream_id = stream_id
        self._members: list[_Member] = []
        self._current = sources[0]

    @property
    def name(self) -> str:
        """The name of the source that is being read."""
        return self._current.name

    @property
    def total(self) -> int | None:
        """Items of all sources; None where one does not know."""
        totals = [source.total for source in self._sources]
        known = [total for total in totals if total is not None]
        return sum(known) if len(known) == len(totals) else None

    async def begin(self) -> int:
        """Registers the sources; how many of their items had a durable destination before this run."""
        for source in self._sources:
            self._members.append(await self._member(source))
        return sum(member.start for member in self._members)

    async def read(self, start: int = 0) -> AsyncGenerator[Sequence[SourceItem], None]:
        """Batches of all items that are not done, offsets on the group's line. `start` is 0."""
        waiting = list(enumerate(self._members))
        while waiting:
            index, member = waiting.pop(0)
            self._current = member.source
            batches = cast(AsyncGenerator[Sequence[SourceItem], None], member.source.read(member.start))
            async with aclosing(batches):
                async for batch in batches:
                    await self._note_growth(member)
                    member.end = batch[-1].position.offset + 1
                    yield [moved(item, index) for item in batch]
            if isinstance(member.source, GrowingSource):
                successor = await member.source.successor()
                if successor is not None:
                    self._members.append(await self._member(successor))
                    waiting.append((len(self._members) - 1, self._members[-1]))

    def source_id(self, index: int) -> int:
        """The registered id of the source at a place of the group."""
        return self._members[index].source_id

    def commits(self, offset: int) -> list[tuple[int, int]]:
        """What "everything below `offset` is done" means: source id and own offset of each source."""
        last = offset - 1
        index = last >> _SHIFT
        done = [(m.source_id, m.end) for m in self._members[:index] if m.end]
        return [*done, (self.source_id(index), (last & _LOCAL) + 1)]

    async def _member(self, source: SourcePort) -> _Member:
        content: Content | None = None
        if isinstance(source, GrowingSource):
            content = source.content
            source_id = await self._contents.register(
                kind="file", name=source.name, mapping=self._mapping, content=content,
                starts_with=source.starts_with,
            )  # fmt: skip
        else:
            fingerprint = source.fingerprint or f"stream:{self._stream_id().hex}"
            source_id = await self._store.register(
                kind="file", name=source.name, fingerprint=fingerprint, mapping=self._mapping,
                total=source.total,
            )  # fmt: skip
        return _Member(source, source_id, await self._store.checkpoint(source_id), content)

    async def _note_growth(self, member: _Member) -> None:
        """Before an item of a followed file is handed over, the content that it is part of is known."""
        if member.noted is None or not isinstance(member.source, GrowingSource):
            return
        content = member.source.content
        if content == member.noted:
            return
        if not await self._contents.extend(member.source_id, member.noted, content):
            raise AssayError(f"{member.source.name} is followed by another run as well; end one of them.")
        member.noted = content


def moved(item: SourceItem, index: int) -> SourceItem:
    """The item with its offset on the line of the group."""
    return item if index == 0 else replace(item, position=_moved(item.position, index))


def _moved(position: SourcePosition, index: int) -> SourcePosition:
    return position._replace(offset=index << _SHIFT | position.offset)


def _own(position: SourcePosition) -> SourcePosition:
    """The position in the source itself."""
    return position._replace(offset=position.offset & _LOCAL)


def _own_record(record: InputRecord) -> InputRecord:
    if record.position.offset <= _LOCAL:
        return record
    return replace(record, position=_own(record.position))


def _by_index(items: Iterable[tuple[SourcePosition, T]]) -> dict[int, list[T]]:
    found: defaultdict[int, list[T]] = defaultdict(list)
    for position, item in items:
        found[position.offset >> _SHIFT].append(item)
    return found


class GroupedClaims:
    """Claims of records of a group; see `ClaimPort`."""

    def __init__(self, claims: ClaimPort, group: SourceGroup) -> None:
        self._claims = claims
        self._group = group

    async def claim(self, source_id: int, offers: Sequence[Offer], *, park_as: str | None = None) -> Claims:
        """One claim for each source that the offers come from; `source_id` is not looked at."""
        found = Claims([], [])
        for index, some in _by_index((offer.record.position, offer) for offer in offers).items():
            own = [replace(offer, record=_own_record(offer.record)) for offer in some]
            claims = await self._claims.claim(self._group.source_id(index), own, park_as=park_as)
            found.won.extend((self._moved(record, index), task) for record, task in claims.won)
            found.not_won.extend(
                replace(lost, record=self._moved(lost.record, index)) for lost in claims.not_won
            )
        return found

    @staticmethod
    def _moved(record: InputRecord, index: int) -> InputRecord:
        return record if index == 0 else replace(record, position=_moved(record.position, index))

    async def claim_waiting(
        self, most: int, *, retries: int | None = None, max_bytes: int | None = None
    ) -> list[ClaimedTask]:
        return await self._claims.claim_waiting(most, retries=retries, max_bytes=max_bytes)

    async def release(self) -> None:
        await self._claims.release()

    async def tidy(self) -> int:
        return await self._claims.tidy()

    async def next_due(self) -> tuple[float | None, int]:
        return await self._claims.next_due()

    async def low_priority(self) -> LowPriority:
        return await self._claims.low_priority()


class GroupedSources:
    """Checkpoints and isolation of a group; see `SourceStorePort`."""

    def __init__(self, sources: SourceStorePort, group: SourceGroup) -> None:
        self._sources = sources
        self._group = group
        self._committed: dict[int, int] = {}

    async def register(
        self, *, kind: str, name: str, fingerprint: str, mapping: str, total: int | None = None
    ) -> int:
        return await self._sources.register(
            kind=kind, name=name, fingerprint=fingerprint, mapping=mapping, total=total
        )

    async def checkpoint(self, source_id: int, partition: int = 0) -> int:
        return await self._sources.checkpoint(source_id, partition)

    async def position(self, source_id: int, partition: int) -> int | None:
        return await self._sources.position(source_id, partition)

    async def commit(self, source_id: int, offset: int, partition: int = 0, *, floor: int = 0) -> None:
        """Everything below an offset of the group is done. `source_id` and `floor` are about one source and
        not looked at: each file has its own."""
        for one, own in self._group.commits(offset):
            if self._committed.get(one) != own:
                await self._sources.commit(one, own, partition, floor=self._committed.get(one, 0))
                self._committed[one] = own

    async def isolate(self, source_id: int, isolations: Sequence[Isolation]) -> int:
        """Isolates each piece in its own source; `source_id` is not looked at."""
        new = 0
        for index, some in _by_index((each.position, each) for each in isolations).items():
            own = [
                replace(
                    each,
                    position=_own(each.position),
                    record=None if each.record is None else _own_record(each.record),
                )
                for each in some
            ]
            new += await self._sources.isolate(self._group.source_id(index), own)
        return new
