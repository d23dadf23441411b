"""The comparison with gold as a page for people, and as an object for programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import typer
from rich.console import Console
from rich.text import Text

from assay.cli.chosen import SHORT
from assay.cli.evaluation_run import Compared
from assay.cli.json_text import to_json
from assay.cli.tables import NONE, console, count, put, shown, table
from assay.domain.evaluation import Averages, Evaluation

_MOST_CLASSES: Final = 100
_MOST_CONFUSIONS: Final = 10


def show(found: Compared, *, as_json: bool) -> None:
    """Print it."""
    if as_json:
        typer.echo(to_json(as_object(found)))
        return
    screen = console()
    _show_scope(screen, found)
    _show_scores(screen, found.evaluation)
    _show_wrong(screen, found)
    if not found.compared.sensitive:
        _show_classes(screen, found.evaluation)
        _show_confusions(screen, found.evaluation)


def as_object(found: Compared) -> dict[str, object]:
    """Everything by name; labels of a sensitive field are counted, not named."""
    evaluation, pairs = found.evaluation, found.pairs
    named = not found.compared.sensitive
    return {
        "pipeline": found.version.name, "pipeline_version": found.version.pipeline_version,
        "version_label": found.version.label, "gold": found.gold, "field": found.compared.key,
        "gold_records": found.gold_records, "not_annotated": found.not_annotated,
        "unfinished": pairs.unfinished, "erased": pairs.erased, "evaluated": evaluation.pairs,
        "states": pairs.states, "label_set": found.label_set, "label_count": len(evaluation.labels),
        "labels": evaluation.labels if named else None, "correct": evaluation.correct,
        "accuracy": evaluation.accuracy, "weighted": evaluation.weighted, "macro": evaluation.macro,
        "missing": evaluation.missing, "missing_by_code": pairs.missing,
        "missing_outside_contract": pairs.outside_list,
        "outside_count": sum(evaluation.outside.values()),
        "outside": evaluation.outside if named else None,
        "gold_outside_count": sum(evaluation.gold_outside.values()),
        "gold_outside": evaluation.gold_outside if named else None,
        "undefined_count": len(evaluation.undefined),
        "undefined": evaluation.undefined if named else None,
        "classes": evaluation.classes if named else None,
        "confusion": evaluation.confusion if named else None,
    }  # fmt: skip


def _show_scope(screen: Console, found: Compared) -> None:
    version = found.version
    label = f" ({shown(version.label)})" if version.label else ""
    name = f"{shown(version.name)} version {version.pipeline_version[:SHORT]}{label}"
    title = f"{name}: {shown(found.compared.key)} against {shown(found.gold)}"
    screen.print(Text(title, style="bold"))
    left_out = [f"{found.not_annotated} not annotated"]
    if found.pairs.unfinished:
        left_out.append(f"{found.pairs.unfinished} not finished")
    if found.pairs.erased:
        left_out.append(f"{found.pairs.erased} erased")
    style = "bold red" if found.evaluation.pairs < found.gold_records else ""
    screen.print(Text(
        f"Evaluated over {found.evaluation.pairs} of {found.gold_records} gold records; {', '.join(left_out)}"
        f"{' (left out of every figure)' if style else ''}.", style=style
    ))  # fmt: skip
    states = ", ".join(f"{state} {number}" for state, number in found.pairs.states.most_common())
    screen.print(f"States: {states}. Averages are over {_label_set(found)}.")


def _label_set(found: Compared) -> str:
    evaluation = found.evaluation
    names = {
        "contract": "of the contract",
        "gold": "that occur in the gold",
        "union": "that occur in gold or answers",
    }
    without = sum(1 for each in evaluation.classes if not each.support)
    empty = f", {without} of them without gold" if without else ""
    return f"the {count(len(evaluation.labels), 'label')} {names[found.label_set]}{empty}"


def _show_scores(screen: Console, evaluation: Evaluation) -> None:
    rows: list[list[str]] = []
    for name, averages in (("weighted", evaluation.weighted), ("macro", evaluation.macro)):
        zero, one = averages.undefined_as_0, averages.undefined_as_1
        if zero == one:
            rows.append([name, *_averages(zero)])
        else:
            rows.append([f"{name}, undefined as 0", *_averages(zero)])
            rows.append([f"{name}, undefined as 1", *_averages(one)])
    headings = ["", "precision", "recall", "F1"]
    screen.print(
        f"Accuracy {_figure(evaluation.accuracy)} ({evaluation.correct} of {evaluation.pairs} correct)"
    )
    put(screen, table(None, headings, rows, right=headings[1:]))


def _averages(averages: Averages) -> list[str]:
    return [_figure(averages.precision), _figure(averages.recall), _figure(averages.mean_f1)]


def _figure(value: float | None) -> str:
    return NONE if value is None else f"{value:.4f}"


def _show_wrong(screen: Console, found: Compared) -> None:
    for line in _wrong(found):
        screen.print(Text(line, style="yellow"))


def _wrong(found: Compared) -> Iterator[str]:
    """What no average may hide: answers that are missing or not in the label set. All count as wrong."""
    evaluation, named = found.evaluation, not found.compared.sensitive
    if evaluation.missing:
        codes = ", ".join(f"{shown(code)} {number}" for code, number in found.pairs.missing.most_common())
        yield f"No answer, counted as wrong: {evaluation.missing} ({codes})."
    if found.pairs.outside_list:
        yield f"  of these, {found.pairs.outside_list} answered with a label that the contract does not have."
    for title, outside in (
        ("Answers outside the label set, counted as wrong", evaluation.outside),
        ("Gold outside the label set, counted as wrong", evaluation.gold_outside),
    ):
        if outside:
            names = f" ({', '.join(f'{shown(k)} {n}' for k, n in outside.items())})" if named else ""
            yield f"{title}: {sum(outside.values())}{names}."
    if evaluation.undefined:
        names = f": {', '.join(map(shown, evaluation.undefined))}" if named else ""
        yield (
            f"{count(len(evaluation.undefined), 'label')} without a prediction or without gold{names}; "
            "their precision or recall has no value and counts as stated."
        )


def _show_classes(screen: Console, evaluation: Evaluation) -> None:
    shown_classes = evaluation.classes
    title = "Classes"
    if len(shown_classes) > _MOST_CLASSES:
        shown_classes = tuple(sorted(shown_classes, key=lambda each: -each.support)[:_MOST_CLASSES])
        title = f"Classes: the {_MOST_CLASSES} largest of {len(evaluation.classes)} (--json has all)"
    headings = ["label", "gold", "predicted", "correct", "precision", "recall", "F1"]
    rows = [
        [
            each.label,
            each.support,
            each.predicted,
            each.correct,
            *map(_figure, (each.precision, each.recall, each.f1)),
        ]
        for each in shown_classes
    ]
    put(screen, table(title, headings, rows, right=headings[1:]))


def _show_confusions(screen: Console, evaluation: Evaluation) -> None:
    wrong = [
        cell for cell in evaluation.confusion if cell.predicted is not None and cell.gold != cell.predicted
    ]
    wrong.sort(key=lambda cell: -cell.count)
    rows = [[cell.gold, cell.predicted, cell.count] for cell in wrong[:_MOST_CONFUSIONS]]
    if rows:
        put(screen, table("Most frequent confusions", ["gold", "answered", "count"], rows, right=["count"]))
