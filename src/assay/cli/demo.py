"""`assay demo`: everything once, on this machine, with real failures."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class DemoModel(StrEnum):
    """What labels the tickets of the demo."""

    PRACTICE = "practice"
    LOCAL = "local"


def demo(
    model: Annotated[
        DemoModel,
        typer.Option(help="Who answers: the practice vendor, or a small language model on this machine."),
    ] = DemoModel.PRACTICE,
    records: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=100_000,
            help="How many tickets to label; default 3000 (local model: 32, or 16 without the schema).",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Other tickets, other mistakes and faults.")] = 1,
    concurrency: Annotated[
        int | None,
        typer.Option(min=1, max=1000, help="Model calls at once; default 32 (local model: as fits)."),
    ] = None,
    latency: Annotated[
        float | None, typer.Option(min=0, help="Mean seconds per call of the practice vendor; default 0.15.")
    ] = None,
    unconstrained: Annotated[
        bool,
        typer.Option("--unconstrained", help="Local model: do not hold it to the contract's schema."),
    ] = False,
) -> None:
    """Label made-up tickets end to end: real HTTP to a practice vendor, real PostgreSQL, real failures.

    Kill it half-way and start it again: it goes on where it was, loses nothing and doubles nothing. The
    pipeline and its data are put into `.assay/demo`, yours to change. `--model local` asks a real, small
    language model instead; `docs/local-model.md` tells how to install it.
    """
    from assay.domain.failures import ConfigurationError

    if model is DemoModel.LOCAL:
        from assay.cli.demo_local import LocalDemoOptions, execute_local_demo

        if latency is not None:
            raise ConfigurationError("--latency is the practice vendor's; leave it out with --model local.")
        code = execute_local_demo(LocalDemoOptions(records, seed, concurrency, unconstrained))
    else:
        from assay.cli.demo_command import DemoOptions, execute_demo

        if unconstrained:
            raise ConfigurationError("--unconstrained is the local model's; add --model local.")
        code = execute_demo(
            DemoOptions(
                3000 if records is None else records, seed, 32 if concurrency is None else concurrency,
                0.15 if latency is None else latency,
            )
        )  # fmt: skip
    if code:
        raise typer.Exit(code)
