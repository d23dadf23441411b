"""What `assay up` runs for a pipeline: topics by its name, and the command line of each process."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from assay.adapters.embedded.launch import any_free_port
from assay.adapters.kafka.security import BROKERS, connection_of
from assay.adapters.pipeline_file import load_pipeline
from assay.cli.kafka_extra import require_kafka
from assay.cli.run_command import build_model
from assay.cli.said import say
from assay.cli.up_places import Order, Plan
from assay.config import Settings
from assay.domain.definition import Pipeline
from assay.domain.failures import ConfigurationError

PRACTICE_MODEL: Final = "openai:practice-1"
WORKER, PUBLISHER, VENDOR = "worker", "publisher", "vendor"
_RECORDED: Final = (
    "The model answers from a recording: a message whose record has no answer in it becomes a dead letter "
    "(response_empty). To have all answered, `assay down`, and `assay up` with --practice GOLD#COLUMN."
)
# Nobody else works here: what a killed worker held is taken over soon.
_LEASE_SECONDS: Final = 15


@dataclass(frozen=True, slots=True)
class UpOptions:
    """The options of `assay up`, read."""

    pipeline: str
    practice: str | None = None
    maps: tuple[str, ...] = ()
    concurrency: int | None = None


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics of a pipeline."""

    records: str
    events: str
    dead_letters: str


def topics_of(name: str) -> Topics:
    """`<name>.in`, `<name>.out`, `<name>.dlq`."""
    return Topics(f"{name}.in", f"{name}.out", f"{name}.dlq")


def group_of(name: str) -> str:
    """The consumer group of the workers, as `assay work` has it."""
    return f"assay-{name}"


def plan_of(options: UpOptions, settings: Settings) -> Plan:
    """The plan, once all that can be known to be wrong before the start has been looked at.

    Raises `ConfigurationError` for a pipeline, a key, gold or brokers that do not do.
    """
    require_kafka()
    pipeline = load_pipeline(options.pipeline)
    file, colon, variable = options.pipeline.partition(":")
    path = Path(file).resolve()
    orders: list[Order] = []
    work = ["work", f"{path}{colon}{variable}"]
    if options.practice is not None:
        pipeline = replace(pipeline, model=PRACTICE_MODEL, label=None)
        port = any_free_port()
        base_url = f"http://127.0.0.1:{port}/v1"
        orders.append(_vendor(options.practice, port))
        work += ["--model", PRACTICE_MODEL, "--base-url", base_url]
    else:
        base_url = None
        if pipeline.model.startswith("recorded:"):
            say(_RECORDED)
    _try_model(pipeline, path.parent, base_url, settings)
    brokers = settings.environment.get(BROKERS) or ""
    if brokers:
        connection_of(settings.environment)
    topics = topics_of(pipeline.name)
    work += ["--topic", topics.records, "--lease", str(_LEASE_SECONDS)]
    for given in options.maps:
        work += ["--map", given]
    if options.concurrency is not None:
        work += ["--concurrency", str(options.concurrency)]
    publish = ("publish", "--to", "kafka", "--topic", topics.events, "--dlq-topic", topics.dead_letters)
    orders += [Order(PUBLISHER, publish, broker=True), Order(WORKER, tuple(work), broker=True)]
    asked = (str(path), variable, pipeline.version, options.practice or "", *options.maps,
             str(options.concurrency or ""), brokers)  # fmt: skip
    return Plan(
        name=pipeline.name, asked=asked, project=str(settings.project), working_folder=str(Path.cwd()),
        topics=(topics.records, topics.events, topics.dead_letters), orders=tuple(orders), brokers=brokers,
    )  # fmt: skip


def _vendor(gold: str, port: int) -> Order:
    """The practice vendor of these records. Its mistakes and faults are part of the practice, but for one:
    who says "too many requests" at random, without a limit, is asked less and less."""
    path, mark, column = gold.partition("#")
    if not Path(path).is_file():
        raise ConfigurationError(f"There is no gold file {path}: --practice FILE.jsonl#COLUMN.")
    chosen = f"{Path(path).resolve()}{mark}{column}"
    return Order(
        VENDOR, ("vendor", "--gold", chosen, "--port", str(port), "--rate-limit-share", "0"), port=port
    )


def _try_model(pipeline: Pipeline, folder: Path, base_url: str | None, settings: Settings) -> None:
    """A model whose key or address is missing is told now, and not in a log."""

    async def make_and_close() -> None:
        await build_model(pipeline, folder, base_url, settings).aclose()

    asyncio.run(make_and_close())
