"""`assay eval`: a version's labels compared with gold."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class GoldDates(StrEnum):
    """The order of numbers in gold's dates."""

    YMD = "ymd"
    DMY = "dmy"
    MDY = "mdy"


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
    fields: Annotated[
        bool,
        typer.Option(
            "--fields",
            help="Compare objects field by field; default where the contract has no label field.",
        ),
    ] = False,
    gold_dates: Annotated[
        GoldDates,
        typer.Option(help="With fields: the order of dates in gold that are not YYYY-MM-DD."),
    ] = GoldDates.YMD,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as one JSON object.")] = False,
) -> None:
    """Compare a version's labels with gold: accuracy, weighted and macro averages, every class.

    Dead letters and labels outside the label set count as wrong and are shown. Records without an annotation
    are left out, and that is said. Exit code 2 when no gold record was annotated.

    Extractions are compared field by field with gold that is an object: matches, mismatches, missing and
    spurious values, exactly and under a normalisation, and whole documents.
    """
    from assay.cli.chosen import load
    from assay.cli.evaluation_page import show
    from assay.cli.evaluation_run import EvaluationOptions, run
    from assay.cli.field_page import show_fields
    from assay.cli.field_run import is_about_fields, run_fields

    loaded = load(pipeline, model)
    options = EvaluationOptions(
        gold=gold, maps=tuple(maps or ()), source_name=source_name, version=version,
        labels=None if labels is None else labels.value, field=field,
    )  # fmt: skip
    if is_about_fields(loaded.contract, options, asked=fields):
        show_fields(run_fields(loaded, options, gold_dates.value), as_json=as_json)
    else:
        show(run(loaded, options), as_json=as_json)
