"""What `assay work` does once its options are read."""

from __future__ import annotations

import asyncio
import json
import math
from dataclasses import dataclass, replace
from pathlib import Path

from assay.adapters.kafka.security import connection_of
from assay.adapters.pipeline_file import load_pipeline
from assay.app import (
    DEFAULT_CONCURRENCY,
    RECORDED_CONCURRENCY,
    RunPlan,
    database,
    open_vault_to_write,
    register_version,
    run_pipeline,
)
from assay.cli.run_command import (
    RunSetup,
    build_model,
    complain_of,
    handle_signals,
    priced,
    settle_garbage_collection,
)
from assay.cli.run_input import documents_of
from assay.cli.said import say
from assay.cli.screen import Screen, closing_table
from assay.config import Settings, load_settings
from assay.domain.definition import Pipeline
from assay.domain.failures import ConfigurationError
from assay.domain.pacing import Limits
from assay.domain.record_mapping import parse_mapping
from assay.pipeline.fetching import Documents
from assay.pipeline.limits import WorkerLimits
from assay.pipeline.progress import Progress
from assay.ports import ModelPort, SourcePort


@dataclass(frozen=True, slots=True)
class WorkOptions:
    """The options of `assay work`, read."""

    pipeline: str
    folder: Path
    topic: str
    brokers: str | None = None
    group: str | None = None
    maps: tuple[str, ...] = ()
    documents_root: str | None = None
    from_end: bool = False
    group_protocol: str = "classic"
    assignor: str = "cooperative-sticky"
    instance_id: str | None = None
    session: float = 20.0
    concurrency: int | None = None
    lease: float = 90.0
    drain: float = 30.0
    model: str | None = None
    base_url: str | None = None
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    memory: int = 256
    max_invalid: float = 0.5
    quiet: bool = False


def execute(options: WorkOptions) -> int:
    """Work until told to end; the exit code."""
    settings = load_settings()
    pipeline = load_pipeline(options.pipeline)
    if options.model is not None:
        pipeline = replace(pipeline, model=options.model, label=None)
    source, mapping = _topic(options, pipeline, settings)
    model = build_model(pipeline, options.folder, options.base_url, settings)
    pipeline = priced(pipeline, options.base_url, settings)
    with database(settings, say) as url:
        vault = open_vault_to_write(settings, url)
        version_id, new = register_version(url, pipeline, options.folder)
        if new and not options.quiet:
            say(f"Registered {pipeline.name} version {pipeline.version[:12]}.")
        plan = _plan(options, pipeline, model, (source, mapping), RunSetup(url, vault, version_id))
        return asyncio.run(_work(options, plan))


def _topic(options: WorkOptions, pipeline: Pipeline, settings: Settings) -> tuple[SourcePort, str]:
    try:
        from assay.adapters.kafka.open_topic import TopicReading, open_topic
    except ModuleNotFoundError:
        raise ConfigurationError("Reading from Kafka needs a package: pip install 'assay[kafka]'.") from None
    mapping = parse_mapping(options.maps)
    port = documents_of(mapping, options.documents_root)
    connection = connection_of(settings.environment, options.brokers)
    reading = TopicReading(
        topic=options.topic, group=options.group or f"assay-{pipeline.name}", connection=connection.config,
        mapping=mapping, group_protocol=options.group_protocol, assignor=options.assignor,
        instance_id=options.instance_id, session_seconds=options.session, from_end=options.from_end,
        documents=None if port is None else Documents(port),
    )  # fmt: skip
    return open_topic(reading), json.dumps(mapping, sort_keys=True)


def _plan(
    options: WorkOptions, pipeline: Pipeline, model: ModelPort, given: tuple[SourcePort, str], setup: RunSetup
) -> RunPlan:
    recorded = pipeline.model.startswith("recorded:")
    limits = WorkerLimits(
        concurrency=options.concurrency or (RECORDED_CONCURRENCY if recorded else DEFAULT_CONCURRENCY),
        lease_seconds=options.lease, drain_seconds=options.drain,
        call_timeout_seconds=pipeline.call_timeout_seconds, max_invalid_share=options.max_invalid,
        memory_bytes=options.memory * 1024 * 1024,
    )  # fmt: skip
    return RunPlan(
        url=setup.url, vault=setup.vault, pipeline=pipeline, version_id=setup.version_id, model=model,
        sources=[given[0]], mapping=given[1], limits=limits,
        declared=Limits(options.requests_per_minute, options.tokens_per_minute),
        # A worker outlives its database's restarts, and a stop of its version is cleared by a person.
        patience_seconds=math.inf, clears_stop=False,
    )  # fmt: skip


async def _work(options: WorkOptions, plan: RunPlan) -> int:
    settle_garbage_collection()
    progress = Progress()
    with Screen(progress, title=plan.pipeline.name, quiet=options.quiet) as screen:
        result = await run_pipeline(plan, progress, lambda worker: handle_signals(worker, screen))
    if not options.quiet:
        closing_table(progress, plan.pipeline, screen.elapsed)
    return 0 if result.stopped is None else complain_of(result.stopped)
