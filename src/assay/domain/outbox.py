"""Values and rules of the outbox: an event, what a sink says to it, when a refused one is tried again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

# All events of an aggregate are in one bucket; `assay.outbox_bucket` in the database says in which.
BUCKETS: Final = 64
BEHIND: Final = "behind_an_earlier_event"

# Seconds before a refused event is tried again: doubled with each try, up to the longest.
FIRST_RETRY: Final = 30.0
LONGEST_RETRY: Final = 3600.0


@dataclass(frozen=True, slots=True)
class OutboxEvent:
    """One event as it leaves: what happened to one aggregate, in the order of `outbox_id` per aggregate.

    `event_id` is derived from aggregate, kind, revision and restore epoch; consumers deduplicate by it and
    drop revisions that are not newer. `restore_epoch` is the database's at the time of sending.
    """

    event_id: UUID
    outbox_id: int
    aggregate_kind: str
    aggregate_id: str
    kind: str
    revision: int
    task_id: int | None
    payload: Mapping[str, Any] = field(repr=False)
    created_at: datetime
    restore_epoch: int = 0

    @property
    def aggregate(self) -> tuple[str, str]:
        """What the event happened to."""
        return self.aggregate_kind, self.aggregate_id

    @property
    def key(self) -> str:
        """What a partitioned sink groups by: the record of a result, else the aggregate's own id."""
        record_id = self.payload.get("record_id")
        if self.aggregate_kind == "result" and isinstance(record_id, str):
            return record_id
        return self.aggregate_id


@dataclass(frozen=True, slots=True)
class Delivered:
    """The sink has the event durably. `position`: where (`partition/offset`, a line), None where unknown."""

    position: str | None = None


@dataclass(frozen=True, slots=True)
class Undelivered:
    """The sink does not have the event, or nobody knows.

    `reason` is a code of ours (letters, digits, `_`; never a vendor's text). `poison`: the sink refuses this
    very event, and the same again will not help; else the sink was in the way (a timeout) and it is simply
    sent again.
    """

    reason: str
    poison: bool = False


Answer = Delivered | Undelivered


@dataclass(frozen=True, slots=True)
class Waiting:
    """An event at its publisher: the bucket, the revision of its lease, how often the sink refused it."""

    event: OutboxEvent
    bucket: int
    lease_revision: int
    tries: int = 0


@dataclass(frozen=True, slots=True)
class Backlog:
    """What is not published: how many events, the age of the oldest in seconds, aggregates held back.

    `at` is the database's time of the look.
    """

    at: datetime
    events: int = 0
    oldest_seconds: float | None = None
    blocked: int = 0


def waves(events: Iterable[OutboxEvent]) -> list[list[int]]:
    """Places of the events, in rounds that hold at most one event of each aggregate, in the order given.

    A sink that starts a round once the one before is acknowledged cannot reorder an aggregate, whatever its
    retries do.
    """
    rounds: list[list[int]] = []
    seen: Counter[tuple[str, str]] = Counter()
    for place, event in enumerate(events):
        number = seen[event.aggregate]
        seen[event.aggregate] += 1
        if number == len(rounds):
            rounds.append([])
        rounds[number].append(place)
    return rounds


def without_gaps(events: Sequence[OutboxEvent], answers: Sequence[Answer]) -> list[Answer]:
    """The answers; nothing counts as delivered that stands behind an undelivered event of its aggregate.

    It is sent again then: a duplicate, where counting it would leave the earlier one to come after it.
    Raises `ValueError` when there is not one answer for each event.
    """
    held: set[tuple[str, str]] = set()
    kept: list[Answer] = []
    for event, answer in zip(events, answers, strict=True):
        if event.aggregate in held:
            kept.append(Undelivered(BEHIND))
            continue
        if isinstance(answer, Undelivered):
            held.add(event.aggregate)
        kept.append(answer)
    return kept


def retry_delay(tries: int, draw: float) -> float:
    """Seconds until an event that was refused `tries` times is tried again; `draw` in [0, 1) spreads it.

    Between half of the step and all of it ("equal jitter": AWS Architecture Blog, "Exponential Backoff And
    Jitter", 2015).
    """
    step = min(FIRST_RETRY * 2.0 ** min(tries - 1, 20), LONGEST_RETRY)
    return step / 2 + draw * step / 2
