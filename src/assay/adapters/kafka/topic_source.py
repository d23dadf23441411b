"""A topic as a source: the worker's side of a member of a group."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from typing import Final

from assay.adapters.kafka.group_member import GroupMember
from assay.adapters.kafka.membership import Membership
from assay.adapters.kafka.messages import MessageReader
from assay.domain.identity import SourceItem
from assay.domain.record_mapping import SourceRules
from assay.domain.records import ParsedItem
from assay.domain.starts import Start
from assay.pipeline.fetching import Documents, with_documents
from assay.ports import AssignmentHolder
from assay.telemetry import tell

# What lies between the member's thread and the worker: from the first of these on nothing more is fetched,
# from half of it on it is again.
MOST_ITEMS: Final = 4000
MOST_BYTES: Final = 16 << 20
# Seconds that the thread waits for the worker when partitions are taken away, beyond what the worker waits.
_REVOKE_SECONDS: Final = 10.0
# Seconds for leaving the group: the client may hang there when the broker is away.
_LEAVE_SECONDS: Final = 20.0
_DEFECTS: Final = (Exception,)

_Batch = tuple[Sequence[ParsedItem], int]


class TopicSource:
    """One topic, read as a member of a group; see `SourcePort` and `AssignedSource`."""

    kind = "kafka"
    total: int | None = None

    def __init__(
        self,
        membership: Membership,
        rules: SourceRules,
        *,
        fingerprint: str,
        documents: Documents | None = None,
    ) -> None:
        self.name = rules.name
        self.fingerprint: str | None = fingerprint
        self._membership = membership
        self._rules = rules
        self._documents = documents
        self._batches: asyncio.Queue[_Batch | None] = asyncio.Queue()
        self._items = self._bytes = 0
        self._full = False
        self._failure: Exception | None = None
        self._asking: set[asyncio.Task[None]] = set()
        self._member: GroupMember
        self._holder: AssignmentHolder
        self._loop: asyncio.AbstractEventLoop

    # --- the worker's side ----------------------------------------------------------------------------

    def attach(self, holder: AssignmentHolder, window: Callable[[int], int]) -> None:
        """Called before `read`, on the worker's loop."""
        self._loop = asyncio.get_running_loop()
        self._holder = holder
        self._member = GroupMember(
            self._membership, MessageReader(self._rules), self, is_full=self._is_full, window=window
        )

    async def read(self, start: int = 0) -> AsyncGenerator[Sequence[SourceItem], None]:
        """Items as they come, until `stop`. Raises what ended the membership, `AssayError` mostly."""
        self._member.start(known=await self._is_known())
        async with aclosing(with_documents(self._read(), self._documents)) as batches:
            async for batch in batches:
                yield batch

    async def _is_known(self) -> bool:
        """Whether the group has been at work before, as PostgreSQL knows: then what that does not know was
        added since. Asked before joining: what those decide that join beside this one says nothing."""
        if not self._membership.from_end:
            return True
        found = await self._holder.positions(range(self._membership.from_end))
        return any(position is not None for position in found.values())

    async def _read(self) -> AsyncGenerator[Sequence[ParsedItem], None]:
        while (batch := await self._batches.get()) is not None:
            items, size = batch
            self._items -= len(items)
            self._bytes -= size
            yield items
        if self._failure is not None:
            raise self._failure

    async def commit(self, due: Sequence[tuple[int, int, int]]) -> None:
        """Hand offsets to the member; it commits them at the broker, again until that has them."""
        self._member.commit(due)

    def hold_back(self, reasons: Collection[str]) -> None:
        """See `AssignedSource`."""
        self._member.hold_back(frozenset(reasons))

    async def stop(self, *, commit: bool) -> None:
        """Leave the group. A client that hangs is left alone after a while: the process is about to end."""
        self._member.stop(commit=commit)
        if not await asyncio.to_thread(self._member.join, _LEAVE_SECONDS):
            tell("group_not_left", source=self.name, seconds=_LEAVE_SECONDS)

    # --- called by the member's thread ----------------------------------------------------------------

    def items(self, items: Sequence[ParsedItem], size: int) -> None:
        """Records and malformed messages, in the order of their offsets per partition."""
        self._loop.call_soon_threadsafe(self._take_in, items, size)

    def starts_wanted(self, partitions: Mapping[int, int]) -> None:
        """Partitions were assigned: find out where PostgreSQL stands."""
        self._loop.call_soon_threadsafe(self._ask, dict(partitions))

    def assigned(self, partition: int, epoch: int, start: Start) -> None:
        """Reading of a partition begins; comes before its first record."""
        self._loop.call_soon_threadsafe(self._begun, partition, epoch, start)

    def revoked(self, partitions: Mapping[int, int]) -> Sequence[tuple[int, int, int]]:
        """Blocks the thread until the worker has let go, or for a while; what may be committed."""
        asked = asyncio.run_coroutine_threadsafe(self._holder.revoked(partitions), self._loop)
        try:
            return asked.result(_REVOKE_SECONDS)
        except TimeoutError:
            # The database is away, most likely: nothing is committed, whoever comes next reads it again.
            asked.cancel()
            tell("partitions_not_settled", source=self.name, count=len(partitions), seconds=_REVOKE_SECONDS)
            return []

    def lost(self, partitions: Mapping[int, int]) -> None:
        """Partitions are somebody else's."""
        self._loop.call_soon_threadsafe(self._holder.lost, dict(partitions))

    def ended(self, failure: Exception | None) -> None:
        """The member has left, or has given up."""
        self._loop.call_soon_threadsafe(self._end, failure)

    # --- on the loop ----------------------------------------------------------------------------------

    def _is_full(self) -> bool:
        """Read by the member's thread. With two marks: one alone would stop and start at every batch."""
        share = max(self._items / MOST_ITEMS, self._bytes / MOST_BYTES)
        self._full = share >= (0.5 if self._full else 1.0)
        return self._full

    def _take_in(self, items: Sequence[ParsedItem], size: int) -> None:
        self._items += len(items)
        self._bytes += size
        self._batches.put_nowait((items, size))

    def _ask(self, partitions: dict[int, int]) -> None:
        task = asyncio.create_task(self._find_positions(partitions))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _find_positions(self, partitions: dict[int, int]) -> None:
        """Answers once the database does; a partition waits that long."""
        try:
            found = await self._holder.positions(list(partitions))
        except _DEFECTS as error:
            # Whatever it is: a partition that nobody begins would stand still in silence.
            self._end(error)
            return
        self._member.begin({each: (epoch, found[each]) for each, epoch in partitions.items()})

    def _begun(self, partition: int, epoch: int, start: Start) -> None:
        self._holder.assigned(partition, epoch, start.offset, start.reason)
        if start.expired:
            tell("records_expired", source=self.name, partition=partition, offset=start.offset,
                 count=start.expired)  # fmt: skip

    def _end(self, failure: Exception | None) -> None:
        self._failure = self._failure or failure
        self._batches.put_nowait(None)
