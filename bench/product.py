"""The product as its users run it: a file in, claim, model, finish, event out. One process."""

from __future__ import annotations

import asyncio
import cProfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from assay.adapters.files.source import open_source
from assay.adapters.providers.factory import make_model
from assay.adapters.vault import Vault
from assay.app import RECORDED_CONCURRENCY, RunPlan, register_version, run_pipeline
from assay.domain.definition import Pipeline
from assay.pipeline.limits import WorkerLimits
from assay.pipeline.progress import Progress
from assay.ports import ModelPort
from bench import stopwatch
from bench.answers import After, AtOnce, ticket_pipeline
from bench.children import Figures
from bench.processes import peak_rss_bytes
from bench.switches import GlassVault, ledger_off
from bench.ticker import Ticker

KEY: Final = b"\x17" * 32


def prepare(spec: dict[str, Any]) -> Callable[[], Figures]:
    """`url`, `file`; `model` is `at_once`, `after:SECONDS`, `recorded:…` or an address (http://…).

    `vault` and `ledger` false switch them off; `concurrency`, `batch`, `lease`, `limit` as the product has
    them; `profile` writes a profile of the run to that file.
    """
    stopwatch.start()
    if not spec.get("ledger", True):
        ledger_off()
    pipeline = ticket_pipeline(_spelled(spec["model"]))
    # Both processes of a pair know the version before they start.
    version_id, _ = register_version(spec["url"], pipeline, Path("/"))
    if spec.get("profile"):
        return lambda: _profiled(spec, pipeline, version_id)
    return lambda: asyncio.run(_run(spec, pipeline, version_id))


def _spelled(model: str) -> str:
    return model if model.startswith("recorded:") else "openai:bench-1"


def _profiled(spec: dict[str, Any], pipeline: Pipeline, version_id: int) -> Figures:
    profile = cProfile.Profile()
    figures: Figures = profile.runcall(asyncio.run, _run(spec, pipeline, version_id))
    profile.dump_stats(spec["profile"])
    return figures


def _model(spec: dict[str, Any], pipeline: Pipeline) -> ModelPort:
    kind: str = spec["model"]
    if kind == "at_once":
        return AtOnce()
    if kind.startswith("after:"):
        return After(float(kind.partition(":")[2]))
    address = kind if kind.startswith("http") else None
    return make_model(pipeline.model, base_dir=Path("/"), base_url=address, label_field="category")


def _limits(spec: dict[str, Any]) -> WorkerLimits:
    limits = WorkerLimits(concurrency=spec.get("concurrency") or RECORDED_CONCURRENCY)
    if spec.get("batch"):
        limits = replace(limits, batch=spec["batch"])
    if spec.get("lease"):
        limits = replace(limits, lease_seconds=spec["lease"])
    return limits


async def _run(spec: dict[str, Any], pipeline: Pipeline, version_id: int) -> Figures:
    cpu, begun = time.process_time(), time.perf_counter()
    vault: Vault = Vault(KEY) if spec.get("vault", True) else GlassVault(KEY)
    model = _model(spec, pipeline)
    source = await open_source(spec["file"], format="jsonl")
    plan = RunPlan(
        url=spec["url"], vault=vault, pipeline=pipeline, version_id=version_id, model=model, sources=[source],
        mapping="{}", limits=_limits(spec), limit=spec.get("limit"),
    )  # fmt: skip
    progress = Progress()
    async with Ticker() as ticker:
        await run_pipeline(plan, progress)
    figures = {
        "wall": time.perf_counter() - begun,
        "cpu": time.process_time() - cpu,
        "accepted": float(progress.accepted),
        "calls": float(progress.calls),
        "lease_lost": float(progress.lease_lost),
        "parked": float(progress.parked),
        "peak_rss": float(peak_rss_bytes()),
    }
    if isinstance(model, After):
        figures |= model.figures()
    return figures | ticker.figures() | stopwatch.figures()
