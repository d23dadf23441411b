"""`assay run`: label a file of records."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class InputFormat(StrEnum):
    """How the input is written; `auto` goes by the file's ending."""

    AUTO = "auto"
    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


def run(
    pipeline: Annotated[str, typer.Argument(metavar="PIPELINE", help="FILE.py or FILE.py:name.")],
    inputs: Annotated[
        list[str],
        typer.Option(
            "--input",
            "-i",
            metavar="FILE",
            help="JSONL, CSV or Parquet file (JSONL and CSV also as gzip or zstd) or a quoted pattern; "
            "'-' is standard input. May be repeated.",
        ),
    ],
    maps: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="FIELD=COLUMN", help="Take a field from a column, as in text=title."),
    ] = None,
    input_format: Annotated[
        InputFormat, typer.Option("--format", help="Format of the input.")
    ] = InputFormat.AUTO,
    source_name: Annotated[
        str | None, typer.Option(help="Name that records carry as their source; default: the file's name.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on as a JSONL file grows, until Ctrl-C or SIGTERM.")
    ] = False,
    documents_root: Annotated[
        str | None,
        typer.Option(
            metavar="DIR|URL", help="Where referenced documents lie; default: the folder of the input file."
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=0, help="Read at most so many records in this run.")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(min=1, max=20_000, help="Model calls at once; default 32 (recorded: 500).")
    ] = None,
    lease: Annotated[
        float, typer.Option(min=1, help="Seconds after which a dead worker's tasks are taken over.")
    ] = 90.0,
    drain: Annotated[
        float, typer.Option(min=0, help="Seconds that a graceful stop waits for calls in flight.")
    ] = 30.0,
    model: Annotated[
        str | None, typer.Option(help="Another model than the file names; makes another version.")
    ] = None,
    base_url: Annotated[
        str | None, typer.Option(help="Where the model's API is; not part of the version.")
    ] = None,
    requests_per_minute: Annotated[
        float | None,
        typer.Option(min=1, help="Most calls per minute on the vendor's account, over all workers."),
    ] = None,
    tokens_per_minute: Annotated[
        float | None,
        typer.Option(min=1, help="Most tokens per minute on the account; the vendor's own limits hold too."),
    ] = None,
    max_spend: Annotated[
        str | None,
        typer.Option(metavar="AMOUNT", help="Stop before this run's calls cost more; needs a known price."),
    ] = None,
    memory: Annotated[
        int, typer.Option(min=1, metavar="MIB", help="Record texts in memory at most, in MiB.")
    ] = 256,
    max_invalid: Annotated[
        float, typer.Option(min=0, max=1, help="Share of malformed input above which reading stops.")
    ] = 0.5,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Read the input and say what would be done; call and store nothing."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the closing figures as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no table.")] = False,
) -> None:
    """Label a file of records; resume where an earlier run of the same file stopped.

    Ctrl-C (or SIGTERM) ends gracefully: calls in flight are finished, the rest is parked. A second one ends
    at once; nothing is lost then either. Exit codes: 0 all records have their destination, 2 bad input or
    settings, 3 stopped by a configuration failure (key, model, quota, spend cap), 130 interrupted.
    """
    from assay.cli.run_command import RunOptions, execute

    options = RunOptions(
        pipeline=pipeline, inputs=tuple(inputs), maps=tuple(maps or ()), input_format=input_format.value,
        follow=follow, documents_root=documents_root,
        source_name=source_name, limit=limit, concurrency=concurrency, lease=lease, drain=drain, model=model,
        base_url=base_url, max_spend=max_spend, memory=memory, requests_per_minute=requests_per_minute,
        tokens_per_minute=tokens_per_minute, max_invalid=max_invalid,
        dry_run=dry_run, as_json=as_json, quiet=quiet,
        folder=Path(pipeline.partition(":")[0]).resolve().parent,
    )  # fmt: skip
    code = execute(options)
    if code:
        raise typer.Exit(code)
