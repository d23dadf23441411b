"""`assay results`: the labels, one row per annotation."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from assay.domain.lifecycle import TaskState


class ResultFormat(StrEnum):
    """How rows are written."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


def results(
    target: Annotated[
        str | None,
        typer.Argument(metavar="PIPELINE.py|NAME", help="A file (its current version) or a pipeline's name."),
    ] = None,
    *,
    version: Annotated[
        str | None, typer.Option(metavar="LABEL|DIGEST", help="A version by its label or first digits.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="The version that `assay run --model` made of the file.")
    ] = None,
    states: Annotated[
        list[TaskState] | None, typer.Option("--state", help="Only these states; may be repeated.")
    ] = None,
    result_format: Annotated[
        ResultFormat,
        typer.Option("--format", "-f", help="jsonl, or csv or parquet with a column per label field."),
    ] = ResultFormat.JSONL,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write here, all or nothing; .gz and .zst compress."
        ),
    ] = None,
    reveal: Annotated[
        bool, typer.Option("--reveal", help="Show free-text fields too: they are opened from the vault.")
    ] = False,
    with_text: Annotated[
        bool, typer.Option("--with-text", help="With --reveal: the record's text too.")
    ] = False,
    served: Annotated[
        bool | None,
        typer.Option(
            "--served/--all-versions",
            help="Only what each result points at, or every version's annotations. "
            "A name means --served; a file means its own version alone.",
        ),
    ] = None,
) -> None:
    """Print the labels: one row per annotation, in record order.

    JSON lines hold the label as an object, CSV in columns `label.FIELD` (nested fields as JSON). Values are
    exported as they are: a spreadsheet may read one that begins with = + - @ as a formula. Parquet needs
    --output; its column types follow from the contract.
    """
    from assay.cli.results_export import ExportOptions, export

    export(
        ExportOptions(
            target=target, version=version, model=model, states=tuple(states) if states else None,
            form=result_format.value, output=output, reveal=reveal, with_text=with_text,
            served=served,
        )
    )  # fmt: skip
