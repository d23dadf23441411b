"""How long the product's database steps take, batch by batch, seen from outside the stores."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from assay.adapters.postgres.claim_store import ClaimStore
from assay.adapters.postgres.finish_store import FinishStore
from assay.adapters.postgres.renewal_store import RenewalStore
from bench.children import Figures
from bench.statistics import quantile

# (seconds, members of the batch) per step.
_times: Final[dict[str, list[tuple[float, int]]]] = {"claim": [], "finish": [], "renew": []}


def _note(step: str, begun: float, arguments: tuple[Any, ...]) -> None:
    batch = arguments[-1] if arguments else ()
    _times[step].append((time.perf_counter() - begun, len(batch)))


def _time(step: str, owner: type, name: str) -> None:
    original: Callable[..., Any] = getattr(owner, name)

    async def awaited(store: object, *arguments: Any, **named: Any) -> Any:
        begun = time.perf_counter()
        answer = await original(store, *arguments, **named)
        _note(step, begun, arguments)
        return answer

    def called(store: object, *arguments: Any, **named: Any) -> Any:
        begun = time.perf_counter()
        answer = original(store, *arguments, **named)
        _note(step, begun, arguments)
        return answer

    setattr(owner, name, called if step == "renew" else awaited)


def start() -> None:
    """From here on claims, finishes and renewals of this process are timed."""
    _time("claim", ClaimStore, "claim")
    _time("finish", FinishStore, "finish")
    _time("renew", RenewalStore, "renew")


def figures() -> Figures:
    """Per step: how many, median and 99th percentile in seconds, the mean batch."""
    found: Figures = {}
    for step, noted in _times.items():
        seconds = [each for each, _ in noted]
        found[f"{step}_batches"] = float(len(noted))
        found[f"{step}_p50"] = quantile(seconds, 0.5)
        found[f"{step}_p99"] = quantile(seconds, 0.99)
        found[f"{step}_batch"] = sum(size for _, size in noted) / len(noted) if noted else 0.0
        found[f"{step}_per_record"] = sum(seconds) / max(sum(size for _, size in noted), 1)
    return found
