"""The history of a record as a page for people, and as an object for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.text import Text

from assay.adapters.postgres.explain_store import AnnotationHistory, RecordHistory
from assay.cli.json_text import to_json
from assay.cli.label_fields import label_fields
from assay.cli.tables import console, shown, table
from assay.domain.json_text import Json, read_json

Row = Mapping[str, object]
_PLACE = (
    "source",
    "source_kind",
    "partition",
    "offset",
    "line",
    "input_version",
    "input_sha256",
    "first_seen_at",
)
_MONEY = ("input_tokens", "output_tokens", "cost", "latency_ms")


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
        "dead_letters": history.dead_letters,
        "review_items": history.review_items,
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
        columns = ("created_at", "kind", "revision", "aggregate_id", "event_id", "published_at")
        _show_rows(screen, "Events", history.events, columns)


def _show_input(screen: Console, row: Row) -> None:
    line = "" if row["line"] is None else f", line {row['line']}"
    screen.print(
        f"  input version {row['input_version']} from {shown(row['source'])} (offset {row['offset']}{line}), "
        f"first seen {shown(row['first_seen_at'])}, SHA-256 {str(row['input_sha256'])[:16]}…"
    )
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
    _show_rows(screen, "Moves", history.moves,
               ("at", "move", "from_state", "to_state", "reason", "actor", "attempt_id"))  # fmt: skip
    _show_rows(screen, "Calls", history.calls,
               ("recorded_at", "pass_number", "outcome", "code", "http_status", "finish_reason", *_MONEY,
                "model", "request_id"))  # fmt: skip
    for row in history.dead_letters:
        _show_dead_letter(screen, row)
    _show_rows(screen, "Review items", history.review_items, ("created_at", "reason", "state", "blind"))


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
        lines.append(f"parked until {shown(task['not_before'])}")
    commit = "" if task["code_commit"] is None else f", commit {shown(task['code_commit'])}"
    lines.append(f"model {shown(task['model'])}, attempts {task['attempts']}{commit}")
    if task["quality_selected"]:
        lines.append(f"drawn for the quality pool (probability {shown(task['quality_probability'])})")
    return lines


def _show_dead_letter(screen: Console, row: Row) -> None:
    kind = f", {row['kind']}" if row["kind"] else ""
    screen.print(
        f"\nDead letter {row['dead_letter_id']} ({row['state']}): {shown(row['error_code'])}, "
        f"{row['failure_class']}{kind}, replayed {row['replay_count']} times"
    )
    errors = row["errors"]
    for error in errors if isinstance(errors, list) else []:
        screen.print(f"  {shown(error['path'] or '(whole response)')}: {shown(error['type'])}")


def _show_rows(screen: Console, title: str, rows: Sequence[Row], columns: Sequence[str]) -> None:
    """A table of the columns that say something."""
    if not rows:
        return
    filled = [name for name in columns if any(row[name] is not None for row in rows)]
    right = {*_MONEY, "pass_number", "http_status", "revision"}
    screen.print()
    screen.print(table(title, filled, [[row[name] for name in filled] for row in rows], right=right))
