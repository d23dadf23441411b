"""What `assay demo --model local` does: the tickets, labelled by a small language model on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rich.table import Table

from assay.adapters.pipeline_file import load_pipeline
from assay.adapters.postgres.call_store import CallFigures, CallStore
from assay.adapters.postgres.status_store import StatusStore
from assay.adapters.postgres.version_store import VersionStore
from assay.cli.chosen import version_of
from assay.cli.demo_command import (
    demo_folder,
    demo_run,
    judge_labels,
    own_copy,
    own_tickets,
    shortest,
    show_next_steps,
)
from assay.cli.demo_server import own_server
from assay.cli.opened import existing_database
from assay.cli.run_command import execute
from assay.cli.said import say
from assay.cli.tables import console
from assay.config import load_settings
from assay.domain.failures import ConfigurationError
from assay.domain.lifecycle import TaskState

_PIPELINES: Final = "local_tickets.py"
# About a minute on two free processors. Almost every unconstrained record costs two calls, and long ones.
_RECORDS: Final = 32
_RECORDS_UNCONSTRAINED: Final = 16


@dataclass(frozen=True, slots=True)
class LocalDemoOptions:
    """The options of `assay demo --model local`; None for what fits a machine with two processors."""

    records: int | None
    seed: int
    concurrency: int | None
    unconstrained: bool


def execute_local_demo(options: LocalDemoOptions) -> int:
    """Run it; returns the exit code of its run. Raises `ConfigurationError` where the model is missing."""
    at_once = _answers_at_once(options.concurrency)
    folder = demo_folder()
    name = "unconstrained" if options.unconstrained else "constrained"
    pipeline = f"{own_copy(folder, _PIPELINES)}:{name}"
    own_copy(folder, "local_tickets.md")
    fitting = _RECORDS_UNCONSTRAINED if options.unconstrained else _RECORDS
    records = fitting if options.records is None else options.records
    tickets = own_tickets(folder, records, options.seed)
    how = "free to write what it likes" if options.unconstrained else "held to the contract's schema"
    say(
        f"{records} tickets in ten languages, labelled by SmolLM2-135M on this machine, {how}. It is "
        "a real model and a very small one: most of its labels are wrong, its failures are its own. Kill "
        "this at any moment and start it again: nothing is lost, nothing is doubled."
    )
    server = ("--parallel", str(at_once))
    with own_server("assay.local_model", server, "The local model") as base_url:
        code = execute(demo_run(pipeline, tickets, at_once, base_url))
    if code == 0:
        _show_figures(pipeline)
        say("Compared with gold, though a model of this size says nothing about the quality of others:")
        judge_labels(pipeline, tickets)
        show_next_steps(f"{shortest(folder / _PIPELINES)}:{name}", tickets)
        if not options.unconstrained:
            say("Without the schema it breaks the contract at almost every call: add --unconstrained.")
    return code


def _answers_at_once(asked: int | None) -> int:
    """How many; before anything is made, so that a missing model leaves nothing behind."""
    from assay.local_model.settings import LocalModelConfig, LocalModelError, fitting_parallel
    from assay.local_model.weights import find_weights

    try:
        config = LocalModelConfig(parallel=fitting_parallel() if asked is None else asked)
        find_weights(config.weights)
    except LocalModelError as error:
        told = str(error)
        raise ConfigurationError(f"{told[0].upper()}{told[1:]}.") from error
    return config.parallel


def _show_figures(target: str) -> None:
    """What the ledger holds of this pipeline by now, earlier runs included."""
    pipeline = load_pipeline(target)
    with existing_database(load_settings()) as url:
        found = version_of(VersionStore(url), pipeline)
        figures = CallStore(url).figures(found.version_id)
        states = _states(url, pipeline.name, pipeline.version)
    table = Table(title=f"{pipeline.name}: what the model did", show_header=False, min_width=44)
    table.add_column()
    table.add_column(justify="right")
    for label, value in _lines(figures, states):
        table.add_row(label, value)
    console().print(table)


def _lines(figures: CallFigures, states: dict[str, int]) -> Iterator[tuple[str, str]]:
    yield "answered calls", str(figures.answered)
    if figures.median_ms is not None and figures.p95_ms is not None:
        yield "seconds per call, median", f"{figures.median_ms / 1000:.2f}"
        yield "seconds per call, 19 in 20 within", f"{figures.p95_ms / 1000:.2f}"
    yield "tokens written", str(figures.output_tokens)
    for number, title in ((1, "first passes"), (2, "corrections")):
        of = [each for each in figures.outcomes if each.pass_number == number]
        if of:
            yield title, str(sum(each.calls for each in of))
        for each in of:
            yield f"  {each.code or each.outcome}", str(each.calls)
    for state in (TaskState.AUTO_CANDIDATE, TaskState.REVIEW_PENDING, TaskState.QUARANTINED):
        yield f"records in {state.value}", str(states.get(state.value, 0))


def _states(url: str, name: str, version: str) -> dict[str, int]:
    for each in StatusStore(url).read().versions:
        if (each.version["pipeline"], each.version["pipeline_version"]) == (name, version):
            return each.counts
    return {}
