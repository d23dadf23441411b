"""Versions listed and compared, for people and programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from difflib import unified_diff
from typing import Final

import typer
from rich.console import Console
from rich.text import Text

from assay.adapters.postgres.version_store import VersionRow, VersionStore
from assay.cli.chosen import SHORT, is_file, load
from assay.cli.json_text import to_json
from assay.cli.opened import existing_database
from assay.cli.tables import NONE, console, count, shown, table
from assay.config import load_settings
from assay.domain.definition import Difference
from assay.domain.definition import diff as differences

_LONG: Final = 60


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two versions that are compared."""

    name: str
    pipeline_version: str
    label: str | None
    definition: dict[str, object]

    @property
    def title(self) -> str:
        label = f" ({shown(self.label)})" if self.label else ""
        return f"{shown(self.name)} {self.pipeline_version[:SHORT]}{label}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two versions and where their definitions differ."""

    before: Side
    after: Side
    differences: list[Difference]


def show_versions(found: Sequence[VersionRow], *, every: bool) -> None:
    """Print a table of versions; `every`: those too that were stopped before they settled anything."""
    headings = ["pipeline", "label", "version", "model", "stage", "registered", "commit"]
    rows = [
        [row.name, row.label, row.pipeline_version[:SHORT], row.model,
         _stage(row), row.registered_at, _commit(row.code_commit)]
        for row in found
        if every or not row.left_out
    ]  # fmt: skip
    if rows:
        console().print(table(None, headings, rows))
    if hidden := len(found) - len(rows):
        typer.echo(
            f"Left out: {count(hidden, 'version')} stopped before any record was settled; --all shows all."
        )
    elif not rows:
        typer.echo("No version is registered yet; `assay run` and `assay pipeline register` do it.")


def _stage(row: VersionRow) -> str:
    """Stage, and what holds the version up."""
    stopped = f", stopped: {row.stopped}" if row.stopped else ""
    return row.stage + (", frozen" if row.frozen else "") + stopped


def _commit(commit: str | None) -> str | None:
    """A short commit; + says that files differed from it."""
    return None if commit is None else commit[:SHORT] + ("+" if commit.endswith("+") else "")


def compare(before: str, after: str, name: str | None) -> Comparison:
    """Compare two versions. A label is looked for in the pipeline of the file beside it, or of that name."""
    files = {target: load(target) for target in (before, after) if is_file(target)}
    name = name or next((pipeline.name for pipeline in files.values()), None)
    with ExitStack() as stack:
        store = None
        if len(files) < len({before, after}):
            store = VersionStore(stack.enter_context(existing_database(load_settings())))
        sides = []
        for target in (before, after):
            if target in files:
                pipeline = files[target]
                sides.append(Side(pipeline.name, pipeline.version, pipeline.label, pipeline.definition))
            elif store is not None:
                found = store.resolve(target, name)
                sides.append(Side(found.name, found.pipeline_version, found.label, found.definition))
    first, second = sides
    return Comparison(first, second, differences(first.definition, second.definition))


def show_differences(found: Comparison, *, as_json: bool) -> None:
    """Print where they differ."""
    if as_json:
        sides = {
            side: {"pipeline": each.name, "pipeline_version": each.pipeline_version, "label": each.label}
            for side, each in (("before", found.before), ("after", found.after))
        }
        listed = [{"path": d.path, "before": d.before, "after": d.after} for d in found.differences]
        typer.echo(to_json({**sides, "same": not listed, "differences": listed}))
        return
    screen = console()
    screen.print(Text(f"- {found.before.title}", style="red"))
    screen.print(Text(f"+ {found.after.title}", style="green"))
    for difference in found.differences:
        _show_difference(screen, difference)
    total = len(found.differences)
    screen.print(f"\n{count(total, 'difference')}." if total else "They are the same.")


def _show_difference(screen: Console, difference: Difference) -> None:
    screen.print(Text(f"\n{shown(difference.path) or '/'}", style="bold"))
    before, after = difference.before, difference.after
    if isinstance(before, str) and isinstance(after, str) and max(len(before), len(after)) > _LONG:
        for line in _line_by_line(before, after):
            style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
            screen.print(Text(f"  {shown(line)}", style=style))
        return
    screen.print(Text(f"  - {_value(before)}", style="red"))
    screen.print(Text(f"  + {_value(after)}", style="green"))


def _line_by_line(before: str, after: str) -> Iterator[str]:
    lines = unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=2)
    return (line for number, line in enumerate(lines) if number >= 2)  # without the two file names


def _value(value: object) -> str:
    return f"{NONE} (absent)" if value is None else shown(to_json(value))
