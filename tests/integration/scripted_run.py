"""A whole run in this process, into PostgreSQL, with a model that answers from a script."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final, Literal

from stores import Bench

from assay import Confidence, Contract, Pipeline, Prompt, Reason, Route
from assay.app import RunPlan, run_pipeline
from assay.domain.identity import InputRecord, SourceItem
from assay.pipeline.limits import WorkerLimits
from assay.pipeline.progress import Progress
from assay.ports import ModelRequest, ModelResponse

CALL_COST: Final = Decimal("0.002")


class Ticket(Contract):
    category: Literal["billing", "technical", "other"]
    confidence: Confidence
    reason: Reason


@dataclass
class Hold:
    """An answer that never comes: `called` is set when it is asked for, `cancelled` when that is given up."""

    called: threading.Event = field(default_factory=threading.Event)
    cancelled: threading.Event = field(default_factory=threading.Event)

    async def wait(self) -> None:
        self.called.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()


class ScriptedModel:
    """Gives each record its answers in turn, and keeps what it was asked. A call too many is an error."""

    def __init__(self, script: Mapping[str, Sequence[str | Hold]]) -> None:
        self._script = {record_id: list(answers) for record_id, answers in script.items()}
        self.requests: list[ModelRequest] = []

    @property
    def account(self) -> None:
        return None

    async def complete(self, request: ModelRequest) -> ModelResponse:
        self.requests.append(request)
        answer = self._script[request.record_id].pop(0)
        if isinstance(answer, Hold):
            await answer.wait()
            return ModelResponse("")
        return ModelResponse(answer, cost=CALL_COST, request_id=f"request-{len(self.requests)}")

    async def aclose(self) -> None:
        """Nothing to give back."""


@dataclass(frozen=True)
class ListSource:
    """Records out of a list."""

    name: str
    records: Sequence[InputRecord]
    fingerprint: str | None = None

    @property
    def total(self) -> int:
        return len(self.records)

    async def read(self, start: int = 0) -> AsyncIterator[Sequence[SourceItem]]:
        yield self.records[start:]


def pipeline_of(bench: Bench) -> Pipeline:
    return Pipeline(
        name=bench.name, contract=Ticket, model="openai:scripted", route=Route(accept_at=0.85),
        prompt=Prompt("Sort the ticket.", "Ticket: {text}"),
    )  # fmt: skip


def run(
    bench: Bench, records: Sequence[InputRecord], model: ScriptedModel, *, lease_seconds: float = 90.0
) -> Progress:
    """Label the records under the bench's version, to the end."""
    progress = Progress()
    plan = RunPlan(
        url=bench.url, vault=bench.vault, pipeline=pipeline_of(bench), version_id=bench.version_id,
        model=model, sources=[ListSource(f"{bench.name}.jsonl", records)], mapping="{}",
        limits=WorkerLimits(lease_seconds=lease_seconds, poll_seconds=0.05),
    )  # fmt: skip
    asyncio.run(run_pipeline(plan, progress))
    return progress
