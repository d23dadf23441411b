"""Models of the bench: they answer at once, or after a while, with a valid label."""

from __future__ import annotations

import asyncio
import time
from typing import Final, Literal

from assay import Confidence, Contract, Pipeline, Prompt, Reason, Route
from assay.ports import ModelRequest, ModelResponse, Usage
from bench.children import Figures

ANSWER: Final = (
    '{"category":"billing","confidence":0.97,'
    '"reason":"The customer asks about an invoice that was charged twice in one month."}'
)

# So many latencies after the first call all slots are taken, in the steady order of arrivals.
_FILLING: Final = 2.0


class Ticket(Contract, insufficient_evidence={"category": "insufficient_evidence"}):
    """A label of ordinary size: one category, one number, one sentence that is sealed in the vault."""

    category: Literal["billing", "technical", "account", "shipping", "other", "insufficient_evidence"]
    confidence: Confidence
    reason: Reason


def ticket_pipeline(model: str) -> Pipeline:
    """The pipeline that the bench runs; every answer is accepted."""
    return Pipeline(
        name="bench", contract=Ticket, model=model, prompt=Prompt("Label the ticket."),
        route=Route(accept_at=0.85), rules_version="1",
    )  # fmt: skip


class AtOnce:
    """A model without latency, in the same process: what the product costs by itself."""

    account: str | None = None

    def __init__(self) -> None:
        self._response = ModelResponse(
            content=ANSWER, finish_reason="stop", usage=Usage(120, 30), request_id="bench", status=200,
            model="bench-1", latency_ms=0.0,
        )  # fmt: skip

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """The same answer for every record."""
        return self._response

    async def aclose(self) -> None:
        """Nothing is held."""


class After(AtOnce):
    """A model that takes `seconds` for every answer, and notes when it answered."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds
        self._open = 0
        self._most_open = 0
        self._first = self._last = 0.0
        self._answered: list[float] = []

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """The answer, after its time."""
        self._last = time.perf_counter()
        self._first = self._first or self._last
        self._open += 1
        self._most_open = max(self._most_open, self._open)
        await asyncio.sleep(self._seconds)
        self._open -= 1
        self._answered.append(time.perf_counter())
        return self._response

    def figures(self) -> Figures:
        """The rate between the time when all slots are full and the last call's begin; most calls open."""
        full = self._first + _FILLING * self._seconds
        steady = [at for at in self._answered if full <= at < self._last]
        span = self._last - full
        rate = len(steady) / span if span > 0 else 0.0
        return {"most_open": float(self._most_open), "steady_rate": rate, "steady_seconds": span}
