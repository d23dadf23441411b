"""Events for sinks."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

from assay.domain.outbox import OutboxEvent


def event(aggregate: str, revision: int, *, kind: str = "completed", size: int = 0) -> OutboxEvent:
    """An event of one record; the same arguments give the same one. `size` makes it longer."""
    return OutboxEvent(
        event_id=uuid.uuid5(uuid.NAMESPACE_OID, f"{aggregate}/{revision}/{kind}"), outbox_id=revision,
        aggregate_kind="result", aggregate_id=f"tickets/{aggregate}", kind=kind, revision=revision, task_id=1,
        payload={"record_id": aggregate, "revision": revision, "label": {"filling": "x" * size}},
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    )  # fmt: skip


# A kind that this release cannot write.
UNKNOWN_KIND = "of_a_later_release"
