"""`assay eval`: a version's labels compared with gold."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class LabelSet(StrEnum):
    """The labels that averages are taken over."""

    CONTRACT = "contract"
    GOLD = "gold"
    UNION = "union"


def evaluate(
    pipeline: Annotated[str, typer.Argument(metavar="PIPELINE.py", help="FILE.py or FILE.py:name.")],
    gold: Annotated[str, typer.Option(metavar="FILE#COLUMN", help="JSONL or CSV file and its gold column.")],
    *,
    maps: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="FIELD=COLUMN", help="As for the run, for example record_id=ticket."),
    ] = None,
    source_name: Annotated[
        str | None,
        typer.Option(
            help="Where the gold has no ids: the name that the run's records carry as their source."
        ),
    ] = None,
    version: Annotated[
        str | None, typer.Option(metavar="LABEL|DIGEST", help="Another version than the file's current one.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="The version that `assay run --model` made of the file.")
    ] = None,
    labels: Annotated[
        LabelSet | None,
        typer.Option(
            help="Label set of the averages; default: the contract's list, where it has one, else gold."
        ),
    ] = None,
    field: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Field to compare; default: the contract's label field."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as one JSON object.")] = False,
) -> None:
    """Compare a version's labels with gold: accuracy, weighted and macro averages, every class.

    Dead letters and labels outside the label set count as wrong and are shown. Records without an annotation
    are left out, and that is said. Exit code 2 when no gold record was annotated.
    """
    from assay.cli.evaluation_page import show
    from assay.cli.evaluation_run import EvaluationOptions, run

    found = run(
        EvaluationOptions(
            pipeline=pipeline, gold=gold, maps=tuple(maps or ()), source_name=source_name, version=version,
            model=model, labels=None if labels is None else labels.value, field=field,
        )
    )  # fmt: skip
    show(found, as_json=as_json)
