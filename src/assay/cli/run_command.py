"""What `assay run` does once its options are read."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import typer

from assay.adapters.pipeline_file import load_pipeline
from assay.adapters.postgres.version_store import VersionStore
from assay.adapters.providers.factory import listed_price_of, make_model
from assay.adapters.providers.transport import Deadlines
from assay.adapters.vault import Vault
from assay.app import (
    DEFAULT_CONCURRENCY,
    RECORDED_CONCURRENCY,
    RunPlan,
    database,
    open_vault_to_write,
    register_version,
    run_pipeline,
)
from assay.cli import tables
from assay.cli.errors import INTERRUPTED, STOPPED
from assay.cli.run_input import InputOptions, open_input
from assay.cli.said import complain, say
from assay.cli.screen import Screen, closing_figures, closing_table
from assay.config import Settings, load_settings
from assay.domain.contract import plan_of
from assay.domain.definition import Pipeline
from assay.domain.failures import ConfigurationError
from assay.domain.identity import InputRecord
from assay.domain.pacing import Limits
from assay.domain.price import Price
from assay.domain.spend import amount
from assay.pipeline.attempt import Stopped
from assay.pipeline.limits import WorkerLimits
from assay.pipeline.progress import Progress
from assay.pipeline.worker import RunResult, Worker
from assay.ports import ModelPort, SourcePort

_MEND_ANYTHING: Final = "Mend the key, model or quota, then run the same command again."
_AGAIN: Final = "then run the same command again."
_MEND: Final = {
    "provider_auth": "The vendor refuses the API key: set the right one (OPENAI_API_KEY, ANTHROPIC_API_KEY, "
    f"or ASSAY_MODEL_API_KEY for a base URL of your own), {_AGAIN}",
    "provider_model_unknown": "There is no such model or no such address: check the model's name and the "
    f"path of the base URL, {_AGAIN}",
    "provider_quota": f"The account's quota or credit is used up: raise it, {_AGAIN}",
    "provider_settings_rejected": "The vendor refuses what the pipeline sends: check its parameters and base "
    f"URL, {_AGAIN}",
}


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of `assay run`, read."""

    pipeline: str
    inputs: tuple[str, ...]
    folder: Path
    maps: tuple[str, ...] = ()
    input_format: str = "auto"
    source_name: str | None = None
    follow: bool = False
    documents_root: str | None = None
    limit: int | None = None
    concurrency: int | None = None
    lease: float = 90.0
    drain: float = 30.0
    model: str | None = None
    base_url: str | None = None
    max_spend: str | None = None
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    memory: int = 256
    max_invalid: float = 0.5
    dry_run: bool = False
    as_json: bool = False
    quiet: bool = False


def execute(options: RunOptions) -> int:
    """Run, show, and return the exit code."""
    settings = load_settings()
    pipeline = load_pipeline(options.pipeline)
    if options.model is not None:
        pipeline = replace(pipeline, model=options.model, label=None)
    if options.dry_run:
        return asyncio.run(_dry_run(options, pipeline))
    model = build_model(pipeline, options.folder, options.base_url, settings)
    pipeline = priced(pipeline, options.base_url, settings)
    tell = _nothing if options.quiet else say
    with database(settings, tell) as url:
        vault = open_vault_to_write(settings, url)
        version_id, new = register_version(url, pipeline, options.folder)
        if new:
            tell(f"Registered {pipeline.name} version {pipeline.version[:12]}.")
        code = asyncio.run(_run(options, pipeline, model, RunSetup(url, vault, version_id)))
        for version, count in VersionStore(url).left_behind(pipeline.name, version_id).items():
            tell(
                f"{tables.count(count, 'record')} still waiting under version {version} of {pipeline.name}: "
                "a run with that version's contract, prompt and model finishes what waits. Was it a mistake, "
                f"`assay pipeline stop {version} --reason TEXT` takes it off the lists."
            )
        return code


@dataclass(frozen=True, slots=True)
class RunSetup:
    """What a run gets from the database and the vault."""

    url: str
    vault: Vault
    version_id: int


def _address(pipeline: Pipeline, base_url: str | None, settings: Settings) -> str | None:
    return base_url or pipeline.base_url or settings.environment.get("ASSAY_MODEL_BASE_URL")


def priced(pipeline: Pipeline, base_url: str | None, settings: Settings) -> Pipeline:
    """The pipeline with the price list's price where it states none: what caps reserve and lost calls cost.

    The price is no part of the version. Answered calls are priced by the adapter, cached tokens apart.
    """
    if pipeline.price is not None:
        return pipeline
    listed = listed_price_of(pipeline.model, _address(pipeline, base_url, settings))
    if listed is None:
        return pipeline
    return replace(pipeline, price=Price(listed.input_per_million, listed.output_per_million))


def build_model(pipeline: Pipeline, folder: Path, base_url: str | None, settings: Settings) -> ModelPort:
    """The adapter that the pipeline's model spec names."""
    plan = plan_of(pipeline.contract)
    timeout = pipeline.call_timeout_seconds
    return make_model(
        pipeline.model,
        base_dir=folder,
        base_url=_address(pipeline, base_url, settings),
        parameters=pipeline.parameters,
        label_field=plan.label_field,
        answer_bytes=plan.max_response_bytes,
        only_field=len(pipeline.contract.model_fields) == 1,
        structured_output=pipeline.structured_output,
        price=pipeline.price,
        deadlines=Deadlines(total=timeout, connect=min(10.0, timeout), read=timeout),
        environment=settings.environment,
    )


async def _open(options: RunOptions) -> tuple[list[SourcePort], str]:
    given = InputOptions(
        inputs=options.inputs, maps=options.maps, input_format=options.input_format,
        source_name=options.source_name, follow=options.follow, documents_root=options.documents_root,
    )  # fmt: skip
    return await open_input(given, say)


def settle_garbage_collection() -> None:
    """What is loaded by now stays: the collector need not look at it again, nor as often (6 to 8 % of a run's
    Python time, measured with a model that answers at once)."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


async def _run(options: RunOptions, pipeline: Pipeline, model: ModelPort, setup: RunSetup) -> int:
    sources, mapping = await _open(options)
    settle_garbage_collection()
    recorded = pipeline.model.startswith("recorded:")
    limits = WorkerLimits(
        concurrency=options.concurrency or (RECORDED_CONCURRENCY if recorded else DEFAULT_CONCURRENCY),
        lease_seconds=options.lease,
        drain_seconds=options.drain,
        call_timeout_seconds=pipeline.call_timeout_seconds,
        max_invalid_share=options.max_invalid,
        memory_bytes=options.memory * 1024 * 1024,
    )
    plan = RunPlan(
        url=setup.url, vault=setup.vault, pipeline=pipeline, version_id=setup.version_id,
        model=model, sources=sources, mapping=mapping, limits=limits, limit=options.limit,
        declared=Limits(options.requests_per_minute, options.tokens_per_minute),
        max_spend=None if options.max_spend is None else amount(options.max_spend),
    )  # fmt: skip
    progress = Progress()
    with Screen(progress, title=pipeline.name, quiet=options.quiet or options.as_json) as screen:
        result = await run_pipeline(plan, progress, lambda worker: handle_signals(worker, screen))
    _report(options, pipeline, progress, result, screen.elapsed)
    if result.stopped is not None:
        return complain_of(result.stopped)
    if result.drained and not options.follow:
        say("Interrupted: what was in flight is finished or parked. Run the same command again to go on.")
        return INTERRUPTED
    return 0


def handle_signals(worker: Worker, screen: Screen) -> None:
    """The first signal drains, the second ends the process at once."""
    loop = asyncio.get_running_loop()
    asked = False

    def on_signal() -> None:
        nonlocal asked
        if asked:
            # No clean-up: leases expire, nothing else is needed.
            screen.last_word("Ended at once. Run the same command again to go on; nothing is lost.")
            os._exit(INTERRUPTED)
        asked = True
        screen.note("Finishing what is in flight; once more to end at once.")
        worker.request_stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal)


def complain_of(stopped: Stopped) -> int:
    """Say what stopped the version and what mends it; the exit code."""
    status = f" (HTTP {stopped.status})" if stopped.status else ""
    mend = stopped.sentence or _MEND.get(stopped.code, _MEND_ANYTHING)
    complain(f"Stopped: {stopped.code}{status} — no record was burnt. {mend}", STOPPED)
    return STOPPED


def _report(
    options: RunOptions, pipeline: Pipeline, progress: Progress, result: RunResult, elapsed: float
) -> None:
    if options.as_json:
        figures = closing_figures(progress, elapsed) | {
            "pipeline": pipeline.name,
            "pipeline_version": pipeline.version,
            "drained": result.drained,
            "stopped": result.stopped.code if result.stopped else None,
        }
        typer.echo(json.dumps(figures))
    elif not options.quiet:
        closing_table(progress, pipeline, elapsed)


async def _dry_run(options: RunOptions, pipeline: Pipeline) -> int:
    """Read all of the input; count what is a record and what is not."""
    if options.follow:
        raise ConfigurationError("A followed file has no end to read to; leave --follow or --dry-run out.")
    sources, _ = await _open(options)
    records = malformed = characters = 0
    for source in sources:
        async for batch in source.read(0):
            for item in batch:
                if options.limit is not None and records + malformed >= options.limit:
                    break
                if isinstance(item, InputRecord):
                    records += 1
                    characters += len(item.text)
                    continue
                malformed += 1
                if malformed <= 5:
                    say(f"{source.name} line {item.position.line}: {item.error_type} {item.path}".rstrip())
    summary = {
        "pipeline": pipeline.name, "pipeline_version": pipeline.version, "model": pipeline.model,
        "records": records, "malformed": malformed, "characters": characters,
    }  # fmt: skip
    if options.as_json:
        typer.echo(json.dumps(summary))
    else:
        typer.echo(
            f"{records} records ({characters} characters) would go to {pipeline.model} as {pipeline.name} "
            f"version {pipeline.version[:12]}; {malformed} malformed would be isolated. "
            "Nothing was called or stored."
        )
    return 0


def _nothing(told: str) -> None:
    return
