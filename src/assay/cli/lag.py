"""`assay lag`: how far a pipeline is behind its topics, for people and for monitors."""

from __future__ import annotations

from typing import Annotated

import typer


def lag(
    pipeline: Annotated[str, typer.Argument(metavar="PIPELINE", help="FILE.py, or the pipeline's name.")],
    topics: Annotated[
        list[str] | None,
        typer.Option(
            "--topic", metavar="NAME", help="Only this topic; may be repeated. Default: all read yet."
        ),
    ] = None,
    brokers: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT,…", help="Default: ASSAY_KAFKA_BROKERS, or what `assay up` started."),
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="The consumer group; default: assay-<name of the pipeline>.")
    ] = None,
    fail_over: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="End with 1 where more than N messages, or events, wait."),
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(metavar="AGE", help="End with 1 where one has waited longer: 90s, 15m, 6h, 2d."),
    ] = None,
    watch: Annotated[
        float | None,
        typer.Option(
            metavar="[SECONDS]", min=0.2, help="Show it again every so many seconds (2 if no number follows)."
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print it as one JSON object; with --watch one per line.")
    ] = False,
) -> None:
    """Show per partition what is not settled yet, accepted records that are not finished, and the outbox.

    Lag is counted from PostgreSQL, not from the group's committed offsets. Exit codes: 0 within the limits,
    1 a limit is passed (the reason is on standard error), 2 it cannot be told: bad settings, or brokers or
    database do not answer.
    """
    from assay.cli.lag_command import LagOptions, execute

    code = execute(
        LagOptions(
            pipeline=pipeline, topics=tuple(topics or ()), brokers=brokers, group=group, fail_over=fail_over,
            older_than=older_than, watch=watch, as_json=as_json,
        )
    )  # fmt: skip
    if code:
        raise typer.Exit(code)
