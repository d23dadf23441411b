"""What `assay eval` does for extractions: whole labels beside gold that is an object."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from assay.adapters.files.gold import read_gold_objects
from assay.adapters.postgres.result_store import Annotation, ResultStore, Selection
from assay.adapters.postgres.version_store import FoundVersion, VersionStore
from assay.app import open_vault
from assay.cli.chosen import version_of
from assay.cli.evaluation_run import UNFINISHED, EvaluationOptions, nothing_matches
from assay.cli.label_fields import label_fields
from assay.cli.opened import existing_database
from assay.config import load_settings
from assay.domain.compared_values import DateOrder
from assay.domain.contract import Contract, plan_of
from assay.domain.definition import Pipeline
from assay.domain.failures import ConfigurationError
from assay.domain.field_scores import FieldEvaluation, Pair, score_fields
from assay.domain.json_text import Json
from assay.domain.lifecycle import TaskState
from assay.domain.record_mapping import parse_mapping
from assay.domain.unscored import unscored


@dataclass(slots=True)
class Documents:
    """Gold with labels, and what was left out of the comparison.

    `without_label` counts documents without a label by the dead letter's code.
    """

    pairs: list[Pair] = field(default_factory=list)
    states: Counter[str] = field(default_factory=Counter)
    without_label: Counter[str] = field(default_factory=Counter)
    unfinished: int = 0
    erased: int = 0


@dataclass(frozen=True, slots=True)
class FieldsCompared:
    """The whole comparison. `dates` is the order that gold's dates were read in."""

    version: FoundVersion
    gold: str
    gold_records: int
    not_annotated: int
    documents: Documents
    dates: DateOrder
    evaluation: FieldEvaluation


def is_about_fields(contract: type[Contract], options: EvaluationOptions, *, asked: bool) -> bool:
    """Whether every field is compared: where that is asked for, and where no field is the label.

    Raises `ConfigurationError` for options that do not go together.
    """
    if asked and (options.field is not None or options.labels is not None):
        raise ConfigurationError("--fields compares every field; leave --field and --labels out.")
    if options.field is not None or options.labels is not None:
        return False
    return asked or plan_of(contract).label_field is None


def run_fields(pipeline: Pipeline, options: EvaluationOptions, dates: str) -> FieldsCompared:
    """Compare. Raises `ConfigurationError` where there is nothing to compare, with the likely cause."""
    settings = load_settings()
    gold = read_gold_objects(options.gold, mapping=parse_mapping(options.maps), name=options.source_name)
    order = DateOrder(dates)
    with existing_database(settings) as url:
        version = version_of(VersionStore(url), pipeline, options.version)
        fields = label_fields(version.definition)
        store = ResultStore(url, open_vault(settings) if fields.sensitive else None)
        found = Documents()
        for annotation in _newest(store.annotations(Selection(version.name, (version.version_id,)))):
            if annotation.record_id in gold:
                _add(found, annotation, gold[annotation.record_id])
        if not found.states:
            raise nothing_matches(store, version, gold)
    evaluation = score_fields(found.pairs, fields.schema, left_out=unscored(pipeline.contract), dates=order)
    if not evaluation.fields:
        raise ConfigurationError(
            f"{options.gold} mentions no field of the contract; its fields are {', '.join(fields.keys)}."
        )
    return FieldsCompared(
        version, options.gold, len(gold), len(gold) - sum(found.states.values()), found, order, evaluation
    )


def _newest(annotations: Iterator[Annotation]) -> Iterator[Annotation]:
    """Of each record the annotation of its newest input version; they come in that order."""
    last: Annotation | None = None
    for annotation in annotations:
        if last is not None and last.record_id != annotation.record_id:
            yield last
        last = annotation
    if last is not None:
        yield last


def _add(found: Documents, annotation: Annotation, gold: Json) -> None:
    found.states[annotation.state.value] += 1
    if annotation.state in UNFINISHED:
        found.unfinished += 1
    elif annotation.state is TaskState.ERASED:
        found.erased += 1
    else:
        label = None if annotation.state is TaskState.QUARANTINED else annotation.label
        if label is None:
            found.without_label[annotation.error_code or "no_label"] += 1
        found.pairs.append(Pair(gold, label))
