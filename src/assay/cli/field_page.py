"""Extractions compared with gold, as a page for people and as an object for programs. No value is shown."""

from __future__ import annotations

import typer
from rich.console import Console
from rich.text import Text

from assay.cli.chosen import SHORT
from assay.cli.field_run import FieldsCompared
from assay.cli.json_text import to_json
from assay.cli.tables import NONE, console, count, put, shown, table
from assay.domain.compared_values import NORMALISATION
from assay.domain.field_scores import FieldEvaluation, FieldScore, Tally

_RULE = (
    f"Normalisation {NORMALISATION}: amounts as numbers, dates and times by value, text in Unicode form NFC "
    "with case folded, punctuation taken out and runs of white space as one space."
)
_PAIRING = "Lines of an array are paired in order, by the alignment with most matches."


def show_fields(found: FieldsCompared, *, as_json: bool) -> None:
    """Print it."""
    if as_json:
        typer.echo(to_json(as_object(found)))
        return
    screen = console()
    _show_scope(screen, found)
    _show_fields(screen, found.evaluation)
    _show_rest(screen, found)


def as_object(found: FieldsCompared) -> dict[str, object]:
    """Everything by name."""
    evaluation, documents = found.evaluation, found.documents
    return {
        "pipeline": found.version.name, "pipeline_version": found.version.pipeline_version,
        "version_label": found.version.label, "gold": found.gold, "gold_records": found.gold_records,
        "not_annotated": found.not_annotated, "unfinished": documents.unfinished,
        "erased": documents.erased, "evaluated": evaluation.documents, "states": documents.states,
        "without_label": evaluation.without_label, "without_label_by_code": documents.without_label,
        "normalisation": NORMALISATION, "gold_dates": found.dates.value, "pairing": "alignment",
        "documents_right": {"exact": evaluation.right_exact, "normalised": evaluation.right_normalised},
        "all_fields": _both(evaluation.exact, evaluation.normalised),
        "fields": [
            {"path": each.path, "type": each.kind.value, **_both(each.exact, each.normalised)}
            for each in evaluation.fields
        ],
        "not_in_contract": evaluation.unknown,
    }  # fmt: skip


def _both(exact: Tally, normalised: Tally) -> dict[str, object]:
    return {"exact": _counts(exact), "normalised": _counts(normalised)}


def _counts(tally: Tally) -> dict[str, object]:
    return {
        "matches": tally.matches, "mismatches": tally.mismatches, "missing": tally.missing,
        "spurious": tally.spurious, "precision": tally.precision, "recall": tally.recall, "f1": tally.f1,
    }  # fmt: skip


def _show_scope(screen: Console, found: FieldsCompared) -> None:
    version, evaluation, documents = found.version, found.evaluation, found.documents
    label = f" ({shown(version.label)})" if version.label else ""
    title = f"{shown(version.name)} version {version.pipeline_version[:SHORT]}{label}: fields against "
    screen.print(Text(title + shown(found.gold), style="bold"))
    left_out = [f"{found.not_annotated} not annotated"]
    if documents.unfinished:
        left_out.append(f"{documents.unfinished} not finished")
    if documents.erased:
        left_out.append(f"{documents.erased} erased")
    style = "bold red" if evaluation.documents < found.gold_records else ""
    screen.print(Text(
        f"Evaluated over {evaluation.documents} of {found.gold_records} gold records; {', '.join(left_out)}"
        f"{' (left out of every figure)' if style else ''}.", style=style
    ))  # fmt: skip
    screen.print(
        f"Documents with every field right: {evaluation.right_normalised} under the normalisation, "
        f"{evaluation.right_exact} exactly."
    )
    if evaluation.without_label:
        codes = ", ".join(f"{code} {number}" for code, number in documents.without_label.most_common())
        screen.print(
            f"{count(evaluation.without_label, 'document')} without a label, every value of them missing: "
            f"{codes}."
        )


def _show_fields(screen: Console, evaluation: FieldEvaluation) -> None:
    headings = ["field", "type", "match", "mismatch", "missing", "spurious", "precision", "recall", "F1",
                "exact match", "exact F1"]  # fmt: skip
    rows = [_row(each.path, each.kind.value, each.exact, each.normalised) for each in evaluation.fields]
    rows.append(_row("all", "", evaluation.exact, evaluation.normalised))
    put(screen, table("Fields, under the normalisation", headings, rows, right=headings[2:]))


def _row(name: str, kind: str, exact: Tally, normalised: Tally) -> list[object]:
    scores = (normalised.precision, normalised.recall, normalised.f1)
    return [
        name, kind, normalised.matches, normalised.mismatches, normalised.missing, normalised.spurious,
        *map(_figure, scores), exact.matches, _figure(exact.f1),
    ]  # fmt: skip


def _show_rest(screen: Console, found: FieldsCompared) -> None:
    screen.print(f"{_RULE} Gold's dates are read as {found.dates.value}.")
    if any("/*" in each.path for each in _fields(found)):
        screen.print(_PAIRING)
    if found.evaluation.unknown:
        names = ", ".join(map(shown, found.evaluation.unknown))
        screen.print(f"In the gold and not in the contract, so not compared: {names}.")


def _fields(found: FieldsCompared) -> tuple[FieldScore, ...]:
    return found.evaluation.fields


def _figure(value: float | None) -> str:
    return NONE if value is None else f"{value:.4f}"
