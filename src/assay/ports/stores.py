"""What PostgreSQL keeps for a worker: claims, leases, finishes, versions, offsets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol
from uuid import UUID

from assay.domain.work import (
    CallRecord,
    ClaimedTask,
    Claims,
    Finish,
    Finished,
    Isolation,
    LowPriority,
    Offer,
)

# Called with the name of a crash point; does nothing unless one is armed.
Probe = Callable[[str], None]


class ClaimPort(Protocol):
    """Claims of one worker for one pipeline version."""

    async def claim(
        self, source_id: int, offers: Sequence[Offer], *, park_as: str | None = None
    ) -> Claims: ...

    async def claim_waiting(
        self, most: int, *, retries: int | None = None, max_bytes: int | None = None
    ) -> list[ClaimedTask]: ...

    async def tidy(self) -> int: ...

    async def release(self) -> None: ...

    async def next_due(self) -> tuple[float | None, int]: ...

    async def low_priority(self) -> LowPriority: ...


class HeldLease(NamedTuple):
    """A task in a worker's hands, the attempt that holds it, and the lease that it was claimed under."""

    task_id: int
    attempt_id: UUID
    lease_id: int | None


class RenewalPort(Protocol):
    """Lease renewal, called from a thread of its own on a connection of its own."""

    def renew(self, leases: Sequence[HeldLease]) -> set[UUID]: ...

    def close(self) -> None: ...


class FinishPort(Protocol):
    """Fenced finishes of one worker for one pipeline version."""

    async def finish(self, finishes: Sequence[Finish]) -> dict[UUID, Finished]: ...

    async def note_first_pass(self, notes: Sequence[tuple[ClaimedTask, str, CallRecord]]) -> set[UUID]: ...


class OpenStop(Protocol):
    """A stop of a pipeline version that nobody has cleared."""

    @property
    def code(self) -> str: ...

    @property
    def http_status(self) -> int | None: ...


class VersionPort(Protocol):
    """What happens to one pipeline version while it runs. What was written is durable when a method returns.

    `note_model` is True when the vendor answers with another model than before; promotion is frozen then.
    """

    async def stopped(self) -> OpenStop | None: ...

    async def stop(self, code: str, http_status: int | None) -> bool: ...

    async def note_model(self, model: str, request_id: str | None = None) -> bool: ...


class SourceStorePort(Protocol):
    """Checkpoints and isolation of one source."""

    async def register(
        self, *, kind: str, name: str, fingerprint: str, mapping: str, total: int | None = None
    ) -> int: ...

    async def checkpoint(self, source_id: int, partition: int = 0) -> int: ...

    async def position(self, source_id: int, partition: int) -> int | None: ...

    async def commit(self, source_id: int, offset: int, partition: int = 0, *, floor: int = 0) -> None: ...

    async def isolate(self, source_id: int, isolations: Sequence[Isolation]) -> int: ...
