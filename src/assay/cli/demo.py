"""`assay demo`: everything once, on this machine, with real failures."""

from __future__ import annotations

from typing import Annotated

import typer


def demo(
    records: Annotated[int, typer.Option(min=1, max=100_000, help="How many tickets to label.")] = 3000,
    seed: Annotated[int, typer.Option(min=0, help="Other tickets, other mistakes and faults.")] = 1,
    concurrency: Annotated[int, typer.Option(min=1, max=1000, help="Model calls at once.")] = 32,
    latency: Annotated[
        float, typer.Option(min=0, help="Mean seconds per call of the practice vendor.")
    ] = 0.15,
) -> None:
    """Label made-up tickets end to end: real HTTP to a practice vendor, real PostgreSQL, real failures.

    Kill it half-way and start it again: it goes on where it was, loses nothing and doubles nothing. The
    pipeline and its data are put into `.assay/demo`, yours to change.
    """
    from assay.cli.demo_command import DemoOptions, execute_demo

    code = execute_demo(DemoOptions(records, seed, concurrency, latency))
    if code:
        raise typer.Exit(code)
