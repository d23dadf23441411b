"""What `assay eval` does once its options are read: pairs of gold and answer, and what has no pair."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from assay.adapters.files.gold import read_gold
from assay.adapters.postgres.result_store import Answer, ResultStore
from assay.adapters.postgres.version_store import FoundVersion, VersionStore
from assay.app import open_vault
from assay.cli.chosen import version_of
from assay.cli.compared_field import ComparedField, compared_field
from assay.cli.opened import existing_database
from assay.cli.tables import shown
from assay.config import load_settings
from assay.domain.definition import Pipeline
from assay.domain.evaluation import Evaluation, evaluate
from assay.domain.failures import ConfigurationError
from assay.domain.lifecycle import TaskState
from assay.domain.record_mapping import parse_mapping

UNFINISHED: Final = frozenset({TaskState.PROCESSING, TaskState.RETRY_SCHEDULED})
_OUTSIDE_LIST: Final = frozenset({"literal_error", "enum_error"})


@dataclass(frozen=True, slots=True)
class EvaluationOptions:
    """The options of `assay eval`, read."""

    gold: str
    maps: tuple[str, ...] = ()
    source_name: str | None = None
    version: str | None = None
    labels: str | None = None
    field: str | None = None


@dataclass(slots=True)
class Pairs:
    """Gold with answers, and what was left out of the comparison.

    `missing` counts pairs without an answer by reason (the dead letter's code), `outside_list` those of them
    whose answer was refused because the label is not in the contract's list.
    """

    pairs: list[tuple[str, str | None]] = field(default_factory=list)
    states: Counter[str] = field(default_factory=Counter)
    missing: Counter[str] = field(default_factory=Counter)
    outside_list: int = 0
    unfinished: int = 0
    erased: int = 0


@dataclass(frozen=True, slots=True)
class Compared:
    """The whole comparison. `label_set` says which labels the averages are taken over."""

    version: FoundVersion
    compared: ComparedField
    gold: str
    gold_records: int
    not_annotated: int
    pairs: Pairs
    label_set: str
    evaluation: Evaluation


def run(pipeline: Pipeline, options: EvaluationOptions) -> Compared:
    """Compare. Raises `ConfigurationError` where there is nothing to compare, with the likely cause."""
    settings = load_settings()
    gold = read_gold(options.gold, mapping=parse_mapping(options.maps), name=options.source_name)
    with existing_database(settings) as url:
        version = version_of(VersionStore(url), pipeline, options.version)
        compared = compared_field(version.definition, pipeline.contract, options.field)
        store = ResultStore(url, open_vault(settings) if compared.sensitive else None)
        pairs = pair(store.answers(version.version_id, list(gold), compared.key), gold, compared)
        if not pairs.states:
            raise nothing_matches(store, version, gold)
    label_set, labels = _label_set(options.labels, compared, pairs)
    return Compared(
        version=version,
        compared=compared,
        gold=options.gold,
        gold_records=len(gold),
        not_annotated=len(gold) - sum(pairs.states.values()),
        pairs=pairs,
        label_set=label_set,
        evaluation=evaluate(pairs.pairs, labels),
    )


def pair(answers: Iterable[Answer], gold: Mapping[str, str], compared: ComparedField) -> Pairs:
    """Gold and answer of every record that is finished. A dead letter is a pair without an answer."""
    found = Pairs()
    for answer in answers:
        found.states[answer.state.value] += 1
        if answer.state in UNFINISHED:
            found.unfinished += 1
        elif answer.state is TaskState.ERASED:
            found.erased += 1
        else:
            predicted = _predicted(answer, compared)
            if predicted is None:
                _count_missing(found, answer, compared)
            found.pairs.append((compared.gold_label(gold[answer.record_id]), predicted))
    return found


def _predicted(answer: Answer, compared: ComparedField) -> str | None:
    if answer.state is TaskState.QUARANTINED or not answer.labelled:
        return None
    return compared.label(answer.value)


def _count_missing(found: Pairs, answer: Answer, compared: ComparedField) -> None:
    found.missing[answer.error_code or "no_label"] += 1
    if any(path == compared.pointer and kind in _OUTSIDE_LIST for path, kind in answer.errors):
        found.outside_list += 1


def _label_set(wanted: str | None, compared: ComparedField, pairs: Pairs) -> tuple[str, list[str]]:
    """The name of the label set, and its labels in order."""
    gold = {label for label, _ in pairs.pairs}
    if wanted == "contract" and compared.closed is None:
        raise ConfigurationError(
            f"The contract has no closed list for {compared.key}; use --labels gold or --labels union."
        )
    if compared.closed is not None and wanted in (None, "contract"):
        return "contract", list(compared.closed)
    if wanted == "union":
        return "union", sorted(gold | {label for _, label in pairs.pairs if label is not None})
    return "gold", sorted(gold)


def nothing_matches(
    store: ResultStore, version: FoundVersion, gold: Mapping[str, object]
) -> ConfigurationError:
    """What to say where no gold record was annotated."""
    count, example = store.annotated(version.version_id)
    name = f"version {version.pipeline_version[:12]} of {version.name}"
    if example is None:
        return ConfigurationError(f"No record was annotated by {name} yet; run it with `assay run` first.")
    return ConfigurationError(
        f"None of the {len(gold)} gold records is among the {count} that {name} annotated: ids in the gold "
        f"look like {shown(next(iter(gold)))}, those of the run like {shown(example)}; name the id's column "
        "with --map record_id=COLUMN, or the run's source with --source-name."
    )
