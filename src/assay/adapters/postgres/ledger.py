"""Rows of the call ledger."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from assay.domain.work import CallOutcome, CallRecord, ClaimedTask

CALL_COLUMNS: Final = (
    "task_ids", "attempt_ids", "version_ids", "pass_numbers", "outcomes", "codes", "billed", "models",
    "request_ids", "http_statuses", "finish_reasons", "input_tokens", "output_tokens", "cached_tokens",
    "reasoning_tokens", "costs", "latencies_ms", "response_bytes",
)  # fmt: skip


def call_rows(
    task: ClaimedTask, version_id: int, calls: Iterable[CallRecord], *, lease_lost: bool = False
) -> Iterator[tuple[Any, ...]]:
    """One row per call, in the order of CALL_COLUMNS; `lease_lost` overrides the outcome, not the cost."""
    for call in calls:
        outcome = CallOutcome.LEASE_LOST if lease_lost else call.outcome
        yield (
            task.task_id, task.attempt_id, version_id, call.pass_number, outcome.value, call.code,
            call.billed, call.model, call.request_id, call.http_status, call.finish_reason,
            call.input_tokens, call.output_tokens, call.cached_tokens, call.reasoning_tokens, call.cost,
            call.latency_ms, call.response_bytes,
        )  # fmt: skip
