"""The tasks a worker holds right now, and the thread that keeps their leases alive."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from assay.domain.identity import InputRecord
from assay.domain.work import ClaimedTask
from assay.pipeline.attempt import Underway
from assay.ports import HeldLease, Probe, RenewalPort
from assay.telemetry import tell

# Renew three times per lease: two renewals may fail before it ends.
RENEWALS_PER_LEASE: Final = 3

_DEFECTS: Final = (Exception,)


@dataclass(slots=True, eq=False)
class Held:
    """A task in our hands, from its claim to its finish. `record` is None for work from PostgreSQL.

    `lost`: somebody took it over. `finishing`: its finish is on the way, and the fence will tell.
    """

    task: ClaimedTask
    record: InputRecord | None
    underway: Underway = field(default_factory=Underway)
    runner: asyncio.Task[None] | None = None
    lost: bool = False
    finishing: bool = False


class HeldTasks:
    """Held tasks by attempt; read by the renewal thread, so every access takes the lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[UUID, Held] = {}

    def __len__(self) -> int:
        return len(self._held)

    def add(self, held: Iterable[Held]) -> None:
        with self._lock:
            self._held.update((each.task.attempt_id, each) for each in held)

    def drop(self, attempts: Iterable[UUID]) -> None:
        with self._lock:
            for attempt_id in attempts:
                self._held.pop(attempt_id, None)

    def count_of(self, partition: int, epoch: int) -> int:
        """Held tasks whose record came from one assignment of a partition."""
        with self._lock:
            return sum(
                held.record is not None
                and held.record.position.partition == partition
                and held.record.position.epoch == epoch
                for held in self._held.values()
            )

    def get(self, attempt_id: UUID) -> Held | None:
        with self._lock:
            return self._held.get(attempt_id)

    def leases(self) -> list[HeldLease]:
        """Task, attempt and lease of everything held."""
        with self._lock:
            return [
                HeldLease(each.task.task_id, attempt_id, each.task.lease_id)
                for attempt_id, each in self._held.items()
            ]


class Renewal:
    """Extends leases from a thread of its own, so that a busy event loop cannot lose them.

    It goes on while the worker drains. `on_lost` is called in the event loop for each attempt that somebody
    took over.
    """

    def __init__(
        self,
        held: HeldTasks,
        port: RenewalPort,
        *,
        lease_seconds: float,
        on_lost: Callable[[UUID], None],
        on_failure: Callable[[BaseException], None],
        probe: Probe,
    ) -> None:
        self._held = held
        self._port = port
        self._every = lease_seconds / RENEWALS_PER_LEASE
        self._on_lost = on_lost
        self._on_failure = on_failure
        self._probe = probe
        self._stop = threading.Event()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="assay-renewal", daemon=True)

    def start(self) -> None:
        self._thread.start()

    async def stop(self) -> None:
        """End the thread and its connection."""
        self._stop.set()
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        try:
            while not self._stop.wait(self._every):
                self.renew_once()
        except _DEFECTS as defect:
            # Without this thread every lease would lapse in silence.
            self._loop.call_soon_threadsafe(self._on_failure, defect)
        finally:
            self._port.close()

    def renew_once(self) -> None:
        """One round: extend everything held, report what is lost."""
        leases = self._held.leases()
        if not leases:
            return
        self._probe("before_renewal")
        try:
            ours = self._port.renew(leases)
        except ConnectionError as error:
            # The next round tries again; a lease that ends meanwhile is found out by the fence.
            tell("lease_renewal_failed", held=len(leases), error=error)
            return
        if len(ours) == len(leases):
            return
        for _, attempt_id, _ in leases:
            if attempt_id not in ours:
                self._loop.call_soon_threadsafe(self._on_lost, attempt_id)
