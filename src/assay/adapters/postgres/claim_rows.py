"""From offers to rows of a claim, and back to tasks and verdicts."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Final
from uuid import UUID

from assay.domain.failures import Unreadable
from assay.domain.identity import NO_ATTRIBUTES, Attributes, InputKey, InputRecord
from assay.domain.sealing import response_aad
from assay.domain.work import ClaimedTask, KeptResponse, NotWon, Verdict
from assay.ports import VaultPort

_ATTRIBUTES: Final = tuple(each.name for each in dataclasses.fields(Attributes))


def verdict_of(
    record: InputRecord,
    attempts: dict[InputKey, UUID],
    input_hash: bytes | None,
    found: tuple[str | None, bool | None, float, UUID | None],
    *,
    again: bool = True,
) -> NotWon | None:
    """In the order of SPEC 4: erased, conflict, settled, in progress.

    Without `again` a task that waits is left to whoever comes to it: its record has a destination.
    """
    state, claimable, wait, attempt = found
    if not again and state == "retry_scheduled":
        claimable = False
    if state == "erased":
        return NotWon(record, Verdict.ERASED)
    if input_hash is not None and input_hash != record.sha256:
        return NotWon(record, Verdict.CONFLICT)
    if attempt is not None and attempt == attempts[record.key]:
        return NotWon(record, Verdict.WON)
    if state is None or claimable:
        return None
    if state == "processing":
        return NotWon(record, Verdict.IN_PROGRESS, wait)
    return NotWon(record, Verdict.SETTLED)


def attributes_of(record: InputRecord) -> str | None:
    """What is known of a record beside its text, as a JSON object; None where that is nothing."""
    attributes, timestamp = record.attributes, record.position.timestamp_ms
    if attributes is NO_ATTRIBUTES and record.document_ref is None:
        # Messages have a time and often nothing else: no encoder is needed for that.
        return None if timestamp is None else f'{{"source_timestamp": {timestamp}}}'
    named: dict[str, str | int | None] = {name: getattr(attributes, name) for name in _ATTRIBUTES}
    named |= {"document_ref": record.document_ref, "source_timestamp": timestamp}
    given = {name: value for name, value in named.items() if value is not None}
    return json.dumps(given) if given else None


def task_of(
    row: tuple[Any, ...], sha256: bytes, text: str, key: bytes | None, *, is_retry: bool = False
) -> ClaimedTask:
    """A claimed row as a task; without a key it cannot be read."""
    record_id, input_version, task_id, attempt_id, text_ref, attempts, *rest = row
    first_pass, selected, tries, take_overs, age, over, *_ = rest
    return ClaimedTask(
        task_id=task_id, attempt_id=attempt_id, record_id=record_id, input_version=input_version,
        sha256=sha256, text=text, text_ref=text_ref, key=key or b"", attempts=attempts,
        first_pass_code=first_pass, quality_selected=selected, tries=tries, take_overs=take_overs,
        age_seconds=age, taken_over=over, readable=key is not None,
        is_retry=is_retry, lease_id=row[-1], replay_id=row[-2],
    )  # fmt: skip


def with_kept(task: ClaimedTask, sealed: tuple[Any, ...] | None, vault: VaultPort) -> ClaimedTask:
    """The task with the response that a replay judges again; unreadable where that does not open."""
    if sealed is None or not task.readable:
        return task
    attempt, pass_number, truncated, ciphertext = sealed
    aad = response_aad(task.identity, task.sha256, attempt.bytes)
    try:
        content = vault.open(task.key, ciphertext, aad)
    except Unreadable:
        return dataclasses.replace(task, readable=False)
    return dataclasses.replace(task, kept=KeptResponse(content, truncated, pass_number))
