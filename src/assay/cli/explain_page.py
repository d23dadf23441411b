"""The history of a record as a page for people, and as an object for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

from rich.console import Console
from rich.text import Text

from assay.adapters.postgres.explain_store import AnnotationHistory, RecordHistory
from assay.cli.dlq_page import as_object as as_object_of_letter
from assay.cli.dlq_page import heading, put_questions
from assay.cli.dlq_pages import WHOLE
from assay.cli.json_text import to_json
from assay.cli.label_fields import label_fields
from assay.cli.status_now import meaning, money
from assay.cli.tables import console, count, shown, table
from assay.domain.dead_letters import WAITING
from assay.domain.json_text import Json, read_json

Row = Mapping[str, object]
# Holds of the version that people see; --json has them all.
_HOLDS_SHOWN: Final = 5
_PLACE: Final = (
    "source",
    "source_kind",
    "partition",
    "offset",
    "line",
    "input_version",
    "input_sha256",
    "first_seen_at",
    "document_ref",
    "source_name",
    "source_timestamp",
)
# Columns of the table of calls, with the headings that people see: it has to fit.
_CALLS: Final = {
    "recorded_at": "at", "pass_number": "pass", "outcome": "outcome", "code": "code", "http_status": "HTTP",
    "finish_reason": "finish", "input_tokens": "in", "cached_tokens": "cached", "output_tokens": "out",
    "reasoning_tokens": "reasoning", "cost": "cost", "latency_ms": "ms", "model": "model",
    "request_id": "request",
}  # fmt: skip
_MOVES: Final = {
    "at": "at", "move": "move", "from_state": "from", "to_state": "to", "reason": "reason", "actor": "by",
    "attempt_id": "attempt",
}  # fmt: skip
_EVENTS: Final = {
    name: name
    for name in (
        "created_at",
        "kind",
        "revision",
        "aggregate_id",
        "event_id",
        "place",
        "published_at",
        "sink",
    )
}
_REVIEWS: Final = {name: name for name in ("created_at", "reason", "state", "blind")}
# Moves whose reasons are explained below the table.
_EXPLAINED: Final = ("park", "replay", "supersede")
_REPLAYED: Final = {
    "replay": "a replay let it out, for the next worker of its version",
    "replayed_under_newer_version": "a newer version of the pipeline annotated it in a replay",
    "newer_input_version": "a newer version of the record is annotated in its place",
}
_FIGURES: Final = ("in", "cached", "out", "reasoning", "cost", "ms", "pass", "HTTP", "revision")
# Left out where the screen has no room for them; --json has all.
_WIDE: Final = 140
_WIDE_ONLY: Final = frozenset(
    {"attempt_id", "http_status", "finish_reason", "reasoning_tokens", "request_id", "event_id"}
)
_SUMMED: Final = ("input_tokens", "cached_tokens", "output_tokens", "cost")


def as_object(history: RecordHistory) -> dict[str, object]:
    """Everything, with null where there is nothing."""
    return {
        "record_id": history.record_id,
        "inputs": history.inputs,
        "duplicates": history.duplicates,
        "annotations": [_annotation_object(each) for each in history.annotations],
        "results": [_without(row, "task_id") for row in history.results],
        "isolated": history.isolated,
        "events": history.events,
    }


def _annotation_object(history: AnnotationHistory) -> dict[str, object]:
    task = _without(history.task, "contract", "label_json")
    return task | {
        "label": _label(history.task),
        "moves": history.moves,
        "calls": history.calls,
        "dead_letters": [as_object_of_letter(*_letter(row)) for row in history.dead_letters],
        "review_items": history.review_items,
        "version_holds": history.holds,
    }


def _without(row: Row, *names: str) -> dict[str, object]:
    return {name: value for name, value in row.items() if name not in names}


def _label(task: Row) -> Json:
    """The plain part of the label, in the contract's order."""
    text = task["label_json"]
    if not isinstance(text, str):
        return None
    label = read_json(text)
    contract = task["contract"]
    return label_fields({"contract": contract}).arrange(label) if isinstance(contract, Mapping) else label


def show(history: RecordHistory) -> None:
    """Print the page."""
    screen = console()
    screen.print(Text(f"Record {shown(history.record_id)}", style="bold"))
    for row in history.inputs:
        _show_input(screen, row)
    for row in history.duplicates:
        screen.print(
            f"  came again: {shown(row['source'])} offset {row['offset']} (version {row['input_version']}), "
            f"{shown(row['seen_at'])}"
        )
    for row in history.isolated:
        _show_isolated(screen, row)
    serving = {row["task_id"]: row for row in history.results}
    for each in history.annotations:
        _show_annotation(screen, each, serving.get(each.task["task_id"]))
    if history.inputs and not history.annotations:
        screen.print("\nNo annotation yet.")
    if history.events:
        _show_rows(screen, "Events", history.events, _EVENTS)


def _show_input(screen: Console, row: Row) -> None:
    line = "" if row["line"] is None else f", line {row['line']}"
    screen.print(
        f"  input version {row['input_version']} from {shown(row['source'])} (offset {row['offset']}{line}), "
        f"first seen {shown(row['first_seen_at'])}, SHA-256 {str(row['input_sha256'])[:16]}…"
    )
    if row["source_name"] is not None:
        screen.print(f"    its record names the source {shown(row['source_name'])}")
    if row["source_timestamp"] is not None:
        screen.print(f"    its message is of {shown(row['source_timestamp'])}")
    if row["document_ref"] is not None:
        screen.print(f"    its text was read from {shown(row['document_ref'])}")
    carried = {name: value for name, value in row.items() if name not in _PLACE and value is not None}
    if carried:
        screen.print("    " + ", ".join(f"{name} {shown(value)}" for name, value in carried.items()))


def _show_isolated(screen: Console, row: Row) -> None:
    line = "" if row["line"] is None else f", line {row['line']}"
    path = f" at {shown(row['path'])}" if row["path"] else ""
    title = f"Isolated ({shown(row['state'])}): {row['error_code']}, {row['error_type']}{path}"
    screen.print(Text(f"\n{title}", style="bold red"))
    screen.print(
        f"  {shown(row['source'])} offset {row['offset']}{line}, {shown(row['created_at'])}; bytes in the "
        f"vault; replayed {row['replay_count']} times, policy {shown(row['replay_policy'])}"
    )
    if row["ended_at"] is not None:
        ended = "closed" if row["fix"] is None else f"fixed ({row['fix']})"
        screen.print(
            f"  {ended} {shown(row['ended_at'])} by {shown(row['ended_by'])}: {shown(row['ended_because'])}"
        )
    else:
        screen.print(f"  `assay isolated show {row['isolated_id']}` has more")


def _show_annotation(screen: Console, history: AnnotationHistory, result: Row | None) -> None:
    task = history.task
    label = f" ({shown(task['version_label'])})" if task["version_label"] else ""
    screen.print(Text(
        f"\n{shown(task['pipeline'])} version {str(task['pipeline_version'])[:12]}{label}, input version "
        f"{task['input_version']}: {task['state']}", style="bold"
    ))  # fmt: skip
    for line in _why(task):
        screen.print(f"  {line}")
    plain = _label(task)
    if plain is not None:
        more = " (and sensitive fields, in the vault)" if task["has_sensitive"] else ""
        screen.print(f"  label {shown(to_json(plain))}{more}")
    if result is not None:
        screen.print(f"  result: revision {result['revision']} since {shown(result['updated_at'])}")
    for row in history.holds[:_HOLDS_SHOWN]:
        screen.print(f"  {_hold(row)}")
    _show_rows(screen, "Moves", history.moves, _MOVES)
    for code in dict.fromkeys(str(row["reason"]) for row in history.moves if row["move"] in _EXPLAINED):
        screen.print(f"  {shown(code)}: {_meaning(code)}")
    _show_rows(screen, "Calls", history.calls, _CALLS)
    if len(history.calls) > 1:
        screen.print(f"  {_total(history.calls)}")
    for row in history.dead_letters:
        _show_dead_letter(screen, row)
    _show_rows(screen, "Review items", history.review_items, _REVIEWS)


def _why(task: Row) -> list[str]:
    lines = []
    named = ("error_code", "review_reason", "first_pass_code", "second_pass_code")
    codes = [f"{name} {shown(task[name])}" for name in named if task[name] is not None]
    if codes:
        lines.append(", ".join(codes))
    if task["confidence"] is not None:
        lines.append(f"confidence {shown(task['confidence'])}, accepted from {shown(task['accept_at'])}")
    if task["state"] == "processing":
        expired = ", expired: the next run takes over" if task["lease_expired"] else ""
        lines.append(
            f"attempt {task['attempt_id']} holds the lease until {shown(task['lease_until'])}{expired}"
        )
    if task["not_before"] is not None:
        reason = task["last_reason"]
        lines.append(f"parked until {shown(task['not_before'])}: {shown(reason)}. {_meaning(reason)}")
    commit = "" if task["code_commit"] is None else f", commit {shown(task['code_commit'])}"
    lines.append(f"model {shown(task['model'])}, attempts {task['attempts']}{commit}")
    if task["quality_selected"]:
        lines.append(f"drawn for the quality pool (probability {shown(task['quality_probability'])})")
    return lines


def _meaning(reason: object) -> str:
    """What a reason means: a replay's, or a code of the table of failures."""
    word, colon, number = str(reason).partition(":")
    if word == "replay" and colon:
        return f"replay {shown(number)} let it out; `assay replay status {shown(number)}` says with which fix"
    return _REPLAYED.get(str(reason)) or meaning(reason)


def _hold(row: Row) -> str:
    """A stop, a freeze or a changed model of the version, in a sentence."""
    status = f" (HTTP {row['http_status']})" if row["http_status"] else ""
    why = f"{shown(row['why'])}{status}"
    if row["what"] == "model_changed":
        return f"the vendor's model changed at {shown(row['since'])}: {why}"
    ended = f", until {shown(row['until'])} by {shown(row['until_by'])}" if row["until"] else ", still"
    return f"version {row['what']} from {shown(row['since'])} by {shown(row['by'])}{ended}: {why}"


def _total(calls: Sequence[Row]) -> str:
    """What all calls of a task took and cost."""
    given = {name: [Decimal(str(row[name])) for row in calls if row[name] is not None] for name in _SUMMED}
    tokens_in, cached, out, cost = (sum(given[name], Decimal(0)) for name in _SUMMED)
    unknown = sum(1 for row in calls if row["billed"] and row["cost"] is None)
    told = f"{count(unknown, 'call')} of unknown cost" if unknown else ""
    cached_of = f" ({cached} cached)" if cached else ""
    paid = f"cost {shown(money(cost))}" if given["cost"] else ""
    figures = f"{tokens_in} tokens in{cached_of}, {out} out" if given["input_tokens"] else ""
    return f"{count(len(calls), 'call')} in all: " + (
        ", ".join(filter(None, (figures, paid, told))) or "no figures"
    )


def _letter(row: Row) -> tuple[Row, Row]:
    """The envelope of a dead letter, and what a replay has to know."""
    facts = row["facts"]
    return _without(row, "facts"), facts if isinstance(facts, Mapping) else {}


def _show_dead_letter(screen: Console, row: Row) -> None:
    """One that waits answers four questions; of one that has ended it is said what it was."""
    envelope, facts = _letter(row)
    screen.print(Text(f"\n{heading(envelope)}", style="bold red"))
    if row["state"] in WAITING:
        put_questions(screen, envelope, facts)
        return
    errors = row["errors"]
    for error in errors if isinstance(errors, list) else []:
        screen.print(f"  {shown(error['path'] or WHOLE)}: {shown(error['type'])}")
    by = f", resolved by {shown(row['resolved_by'])}" if row["resolved_by"] is not None else ""
    screen.print(
        f"  replayed {row['replay_count']} times{by}; `assay dlq show {row['dead_letter_id']}` has more"
    )


def _show_rows(screen: Console, title: str, rows: Sequence[Row], columns: Mapping[str, str]) -> None:
    """A table of the columns that say something, under their headings."""
    if not rows:
        return
    narrow = screen.width < _WIDE
    filled = [
        name
        for name in columns
        if any(row[name] is not None for row in rows) and not (narrow and name in _WIDE_ONLY)
    ]
    headings = [columns[name] for name in filled]
    cells = [[_cell(row[name], narrow=narrow) for name in filled] for row in rows]
    screen.print()
    screen.print(table(title, headings, cells, right=_FIGURES))


def _cell(value: object, *, narrow: bool) -> object:
    if isinstance(value, datetime) and narrow:
        return value.astimezone(UTC).strftime("%m-%d %H:%M:%S")
    return f"{value:.0f}" if isinstance(value, float) else money(value)
