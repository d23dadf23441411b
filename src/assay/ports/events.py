"""The outbox, and where its events go."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from assay.domain.outbox import Backlog, Delivered, OutboxEvent, Undelivered, Waiting


class SinkUnavailable(ConnectionError):
    """A sink as a whole does not answer; another try may help. `reason` is a code, no vendor's text."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class EventSink(Protocol):
    """Where events go.

    `publish` hands over a batch: in the order given per aggregate, nothing is assumed about the order between
    aggregates. It answers for each event, in the same order; once one event of an aggregate is `Undelivered`,
    later ones of that aggregate must not be sent and are too (code `behind_an_earlier_event`). Raises
    `SinkUnavailable` when the sink as a whole does not answer; then any part of the batch may have arrived,
    and all of it is sent again.

    It ends within `send_seconds`, whatever the sink does: the publisher holds a lease for that long.
    `name` says where to, without secrets: `kafka:topic`, `webhook:host`, `jsonl:file`.
    """

    @property
    def name(self) -> str: ...

    @property
    def send_seconds(self) -> float: ...

    async def publish(self, events: Sequence[OutboxEvent]) -> list[Delivered | Undelivered]: ...

    async def aclose(self) -> None: ...


class OutboxPort(Protocol):
    """The outbox as one publisher sees it: the buckets that it holds, and what waits in them.

    Every method raises `ConnectionError` while PostgreSQL is away. `share` takes a turn: the buckets held
    from now on, and how many are the fair share. `read` gives the next events of those, in order per
    aggregate. `record` turns deliveries (with their positions) into receipts and answers which buckets were
    still held; what is of another one stays unpublished. `refuse` holds back aggregates whose first event the
    sink refuses (event, reason, seconds until a retry). `drained`: no event created until then waits. `leave`
    gives the buckets back.
    """

    async def share(self) -> tuple[frozenset[int], int]: ...

    async def read(self, most: int, most_each: int) -> list[Waiting]: ...

    async def record(self, delivered: Sequence[tuple[Waiting, str | None]]) -> frozenset[int]: ...

    async def refuse(self, refused: Sequence[tuple[Waiting, str, float]]) -> None: ...

    async def backlog(self) -> Backlog: ...

    async def drained(self, created_until: datetime) -> bool: ...

    async def leave(self) -> None: ...
