"""Dead letters on the screen: lists, cohorts, costs; and as a file of envelopes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import typer

from assay.adapters.postgres.dead_letter_store import DEFAULT_BY, DIMENSIONS, DeadLetterStore
from assay.adapters.postgres.reading import Row
from assay.cli.dlq_filter import letter_filter
from assay.cli.json_text import to_json
from assay.cli.opened import existing_database
from assay.cli.output_file import check_output, destination
from assay.cli.said import say
from assay.cli.status_now import money
from assay.cli.tables import console, count, put, shown, table
from assay.config import load_settings
from assay.domain.dead_letters import LetterFilter
from assay.domain.failures import ConfigurationError

WHOLE: Final = "(whole response)"
_SHORT: Final = 12
_FIELDS_SHOWN: Final = 3
_LIST: Final = (
    "id", "pipeline", "version", "code", "field", "record", "source", "customer", "type", "state", "owner",
    "cost", "due", "at",
)  # fmt: skip
_NUMBERS: Final = (
    "id",
    "cost",
    "count",
    "waiting",
    "share",
    "calls",
    "in",
    "out",
    "sample",
    "cached",
    "reasoning",
)
# Columns of a cohort: those that it was made by come first, under these headings.
_BY_COLUMN: Final[Mapping[str, tuple[str, str]]] = {
    "version": ("pipeline_version", "version"), "document_type": ("document_type", "type"),
}  # fmt: skip


def show_list(which: LetterFilter, *, oldest: bool, limit: int, after: int | None, as_json: bool) -> None:
    """A line each."""
    with existing_database(load_settings()) as url:
        found = DeadLetterStore(url).envelopes(which, after=after, most=limit + 1, oldest_first=oldest)
    more, found = len(found) > limit, found[:limit]
    if as_json:
        typer.echo(to_json(found))
        return
    if not found:
        typer.echo("No dead letter matches.")
        return
    put(console(), table("Dead letters", _LIST, map(_line, found), right=_NUMBERS))
    if more:
        say(f"There are more; --after {found[-1]['dead_letter_id']} shows them.")


def _line(row: Row) -> list[object]:
    return [
        row["dead_letter_id"], row["pipeline"], _version(row), row["error_code"], _fields(row["fields"]),
        f"{row['record_id']} version {row['input_version']}", row["source"], row["customer"],
        row["document_type"], row["state"], row["owner"], money(row["cost"]), row["due_at"],
        row["last_attempt_at"],
    ]  # fmt: skip


def _version(row: Row) -> object:
    digest = row["pipeline_version"]
    return row["version_label"] or (None if digest is None else str(digest)[:_SHORT])


def _fields(fields: object) -> str:
    named = [str(each) or WHOLE for each in fields] if isinstance(fields, Sequence) else []
    more = f" and {len(named) - _FIELDS_SHOWN} more" if len(named) > _FIELDS_SHOWN else ""
    return ", ".join(named[:_FIELDS_SHOWN]) + more


def dimensions(by: str | None) -> tuple[str, ...]:
    """The columns that cohorts are made by. Raises `ConfigurationError` for one that is none."""
    if by is None:
        return DEFAULT_BY
    named = tuple(dict.fromkeys(each.strip() for each in by.split(",")))
    if wrong := [each for each in named if each not in DIMENSIONS]:
        raise ConfigurationError(f"--by knows no column {wrong[0]!r}; there is {', '.join(DIMENSIONS)}.")
    return named


def show_cohorts(which: LetterFilter, by: str | None, *, share: bool, limit: int, as_json: bool) -> None:
    """A line per cohort."""
    named = dimensions(by)
    with existing_database(load_settings()) as url:
        found = DeadLetterStore(url).cohorts(which, named, most=limit + 1, shares=share)
    more, found = len(found) > limit, found[:limit]
    if as_json:
        typer.echo(to_json([_cohort(row, named) for row in found]))
        return
    if not found:
        typer.echo("No dead letter matches.")
        return
    columns = [_BY_COLUMN.get(each, (each, each)) for each in named]
    if "version" in named and "pipeline" not in named:
        columns = [("pipeline", "pipeline"), *columns]
    headings = [*(heading for _, heading in columns), "count", "waiting", *(["share"] if share else []),
                "first", "last", "oldest waiting", "calls", "in", "out", "cost", "sample"]  # fmt: skip
    rows = [[*(_cell(row, name) for name, _ in columns), *_figures(row, share=share)] for row in found]
    put(console(), table("Cohorts of dead letters", headings, rows, right=_NUMBERS))
    if more:
        say(f"There are more; --limit {2 * limit} shows them, or narrow the filters.")


def _cell(row: Row, name: str) -> object:
    if name == "pipeline_version":
        return _version(row)
    return (row[name] or WHOLE) if name == "field" else row[name]


def _figures(row: Row, *, share: bool) -> list[object]:
    part = [] if not share else [None if row["share"] is None else f"{float(str(row['share'])):.2%}"]
    return [
        row["count"], row["waiting"], *part, row["first_seen"], row["last_seen"], row["oldest_waiting"],
        row["calls"], row["input_tokens"], row["output_tokens"], money(row["cost"]), row["sample"],
    ]  # fmt: skip


def _cohort(row: Row, by: Sequence[str]) -> dict[str, object]:
    """A cohort without the columns that it was not made by."""
    hidden = set(DIMENSIONS) - set(by)
    if "version" in hidden:
        hidden |= {"pipeline_version", "version_label"}
    elif "pipeline" in hidden:
        hidden.remove("pipeline")
    return {name: value for name, value in row.items() if name not in hidden}


def show_costs(
    pipeline: str | None, version: str | None, since: str | None, until: str | None, *, as_json: bool
) -> None:
    """A line per version and code."""
    named = dict.fromkeys(
        ("code", "failure_class", "kind", "field", "source", "customer", "document_type", "language",
         "record_id", "owned_by", "fingerprint"),
    )  # fmt: skip
    which = letter_filter({
        **named, "pipeline": pipeline, "version": version, "since": since, "until": until, "overdue": False,
        "state": "any",
    })  # fmt: skip
    with existing_database(load_settings()) as url:
        found = DeadLetterStore(url).costs(which)
    if as_json:
        typer.echo(to_json(found))
        return
    if not found:
        typer.echo("No call has failed.")
        return
    headings = ("pipeline", "version", "code", "calls", "in", "cached", "out", "reasoning", "cost",
                "cost unknown")  # fmt: skip
    rows = [
        [row["pipeline"], _version(row), row["code"], row["calls"], row["input_tokens"],
         row["cached_tokens"], row["output_tokens"], row["reasoning_tokens"], money(row["cost"]),
         row["cost_unknown"]]
        for row in found
    ]  # fmt: skip
    put(console(), table("Calls that brought nothing", headings, rows, right=(*_NUMBERS, "cost unknown")))


def export_letters(which: LetterFilter, output: Path | None) -> None:
    """A line of JSON each."""
    check_output(output, "jsonl")
    with existing_database(load_settings()) as url, destination(output) as stream:

        def write(row: Row) -> None:
            stream.write(f"{to_json(row)}\n".encode())

        done = DeadLetterStore(url).export(which, write)
    if output is not None:
        say(f"{count(done, 'dead letter')} in {shown(output)}.")
