"""Isolated records on the screen, and what people do with one: assign it, close it, look at its bytes."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

import typer
from rich.text import Text

from assay.adapters.postgres.isolated_store import IsolatedFilter, IsolatedPage, IsolatedStore
from assay.adapters.postgres.reading import Row
from assay.app import open_vault
from assay.cli.json_text import to_json
from assay.cli.opened import existing_database
from assay.cli.output_file import check_output, destination
from assay.cli.person import acting, worded
from assay.cli.said import say
from assay.cli.status_now import meaning
from assay.cli.tables import console, count, put, shown, table
from assay.config import load_settings
from assay.domain.failures import ConfigurationError

_AGE: Final = re.compile(r"(\d{1,6})([smhd])")
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_HEADINGS: Final = (
    "id",
    "source",
    "partition",
    "offset",
    "line",
    "type",
    "path",
    "record",
    "owner",
    "state",
    "at",
)


def chosen(
    state: str, code: str | None, error_type: str | None, source: str | None, *, partition: int | None,
    since: str | None,
) -> IsolatedFilter:  # fmt: skip
    """The filter that the options name. Raises `ConfigurationError` for an age that is none."""
    seconds: int | None = None
    if since is not None:
        found = _AGE.fullmatch(since)
        if found is None:
            raise ConfigurationError("--since is a number with s, m, h or d: 90s, 15m, 6h, 2d.")
        seconds = int(found[1]) * _UNITS[found[2]]
    return IsolatedFilter(
        state=None if state == "any" else state, code=code, error_type=error_type, source=source,
        partition=partition, since_seconds=seconds,
    )  # fmt: skip


def show_list(which: IsolatedFilter, *, after: int, limit: int, as_json: bool) -> None:
    """A line each."""
    with existing_database(load_settings()) as url:
        found = IsolatedStore(url).list(which, after=after, most=limit + 1)
    more, found = len(found) > limit, found[:limit]
    if as_json:
        typer.echo(to_json(found))
        return
    if not found:
        typer.echo("No isolated record matches.")
        return
    rows = [
        [row["isolated_id"], row["source"], row["partition"], row["offset"], row["line"], row["error_type"],
         row["path"] or None, _identity(row), row["owner"], row["state"], row["created_at"]]
        for row in found
    ]  # fmt: skip
    put(console(), table("Isolated records", _HEADINGS, rows, right=("id", "partition", "offset", "line")))
    if more:
        say(f"There are more; --after {found[-1]['isolated_id']} shows them.")


def _identity(row: Row) -> str | None:
    return None if row["record_id"] is None else f"{row['record_id']} version {row['input_version']}"


def show_page(isolated_id: int, *, as_json: bool) -> None:
    """Everything but the bytes."""
    with existing_database(load_settings()) as url:
        page = IsolatedStore(url).page(isolated_id)
    if as_json:
        typer.echo(to_json({**page.record, "acts": page.acts, "task": page.task}))
    else:
        _put_page(page)


def _put_page(page: IsolatedPage) -> None:
    row, screen = page.record, console()
    line = "" if row["line"] is None else f", line {row['line']}"
    path = f" at {shown(row['path'])}" if row["path"] else ""
    screen.print(Text(f"Isolated record {row['isolated_id']}: {row['state']}", style="bold"))
    screen.print(f"  {row['error_code']}, {row['error_type']}{path}: {meaning(row['error_code'])}")
    where = f"{shown(row['source'])}, partition {row['partition']}, offset {row['offset']}{line}"
    screen.print(f"  from {where}; isolated {shown(row['created_at'])}")
    if row["source_timestamp"] is not None:
        screen.print(f"  message of {shown(row['source_timestamp'])}")
    if (identity := _identity(row)) is not None:
        screen.print(f"  its record is {shown(identity)}")
    if row["owner"] is not None:
        screen.print(f"  {shown(row['owner'])} has taken it on")
    for act in page.acts:
        screen.print(f"  {_told(act)}")
    if page.task is not None:
        version = f"{shown(page.task['pipeline'])} version {str(page.task['pipeline_version'])[:12]}"
        screen.print(f"  {version} has it as {page.task['state']}")


def _told(act: Row) -> str:
    who, why = (
        f"{shown(act['at'])} by {shown(act['actor'])}",
        f": {shown(act['reason'])}" if act["reason"] else "",
    )
    match act["kind"]:
        case "fixed":
            key = shown(f"{act['record_id']} version {act['input_version']}")
            return f"fixed ({act['fix']}) {who}{why}; it is record {key} now"
        case "assigned":
            return f"assigned to {shown(act['owner'])} {who}"
        case "shown":
            return f"bytes shown {who}{why}"
    return f"closed {who}{why}"


def show_bytes(isolated_id: int, output: Path | None, reason: str | None, by: str | None) -> None:
    """The bytes as they came. On a terminal control characters are shown as escapes."""
    actor, why = acting(by), None if reason is None else worded(reason)
    check_output(output, "raw")
    settings = load_settings()
    with existing_database(settings) as url:
        vault = open_vault(settings)
        piece = IsolatedStore(url).open_bytes(isolated_id, vault, actor=actor, reason=why)
    if output is None and sys.stdout.isatty():
        typer.echo(shown(piece.raw.decode("utf-8", "backslashreplace")))
        return
    with destination(output) as stream:
        stream.write(piece.raw)
    if output is not None:
        say(f"{count(len(piece.raw), 'byte')} in {output}.")


def assign_record(isolated_id: int, owner: str, by: str | None) -> None:
    """Somebody takes it on."""
    if not owner.strip() or not owner.isprintable():
        raise ConfigurationError("--owner is a name in printable characters.")
    with existing_database(load_settings()) as url:
        done = IsolatedStore(url).assign(isolated_id, owner=owner, actor=acting(by))
    what = f"is {owner}'s now" if done else "is not open any more; nothing changed"
    typer.echo(f"Isolated record {isolated_id} {what}.")


def close_record(isolated_id: int, reason: str, by: str | None) -> None:
    """Nothing will come of it."""
    actor, why = acting(by), worded(reason)
    with existing_database(load_settings()) as url:
        done = IsolatedStore(url).close(isolated_id, actor=actor, reason=why)
    what = "is closed" if done else "was resolved or closed already; nothing changed"
    typer.echo(f"Isolated record {isolated_id} {what}.")
