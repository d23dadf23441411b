"""The status as a page for people: what needs somebody first, then how things stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from rich.console import Console
from rich.text import Text

from assay.adapters.embedded.server import ServerStatus
from assay.adapters.postgres.budget_store import PipelineBudget
from assay.adapters.postgres.status_store import Status, VersionStatus
from assay.cli.opened import NOTHING_YET
from assay.cli.status_alerts import alerts
from assay.cli.status_now import (
    left_out,
    money,
    named,
    show_hour,
    show_parked,
    show_spend,
    show_vendors,
    show_workers,
)
from assay.cli.status_sources import show_sources
from assay.cli.tables import NONE, count, put, shown, table
from assay.domain.lifecycle import TaskState

Row = Mapping[str, object]
# The states that always have a column; the others have one where a task is in them.
_ALWAYS: Final = (TaskState.AUTO_CANDIDATE, TaskState.REVIEW_PENDING, TaskState.QUARANTINED)


def show(
    screen: Console, status: Status, budgets: Sequence[PipelineBudget], server: ServerStatus | None, *,
    every: bool = False,
) -> None:  # fmt: skip
    """Print the page; `every`: with the versions that were stopped before they settled anything."""
    hidden = [] if every else [each for each in status.versions if left_out(each)]
    status = _without(status, hidden)
    if not status.versions and not hidden:
        screen.print(NOTHING_YET)
    elif status.versions:
        for alert in alerts(status, budgets):
            screen.print(Text(alert, style="bold red"))
            screen.print()
        _show_versions(screen, status.versions)
        show_vendors(screen, status.accounts)
        show_workers(screen, status.workers)
        show_parked(screen, status.versions)
        show_hour(screen, status.versions)
        show_spend(screen, budgets)
        _show_calls(screen, status.versions)
        _show_reasons(screen, "Open dead letters", [(v.version, v.dead_letters) for v in status.versions])
        _show_reasons(screen, "Open reviews", [(v.version, v.reviews) for v in status.versions])
    if hidden:
        waiting = count(sum(sum(each.counts.values()) for each in hidden), "record")
        screen.print(
            f"Left out: {count(len(hidden), 'version')} stopped before any record was settled, with "
            f"{waiting} waiting; --all shows all."
        )
        screen.print()
    show_sources(screen, status.sources)
    _show_isolated(screen, status.isolated)
    _show_database(screen, status, server)


def _without(status: Status, hidden: Sequence[VersionStatus]) -> Status:
    """The status without some versions, and without what was read for them alone."""
    gone = {(each.version["pipeline"], each.version["pipeline_version"]) for each in hidden}
    sources = [row for row in status.sources if (row["pipeline"], row["pipeline_version"]) not in gone]
    return replace(status, versions=[v for v in status.versions if v not in hidden], sources=sources)


def _show_versions(screen: Console, versions: Sequence[VersionStatus]) -> None:
    states = [s for s in TaskState if s in _ALWAYS or any(v.counts.get(s) for v in versions)]
    rows = []
    for each in versions:
        held_up = [name for name in ("stopped", "frozen") if each.version[name]]
        stage = ", ".join([shown(each.version["stage"]), *held_up])
        models = ", ".join(shown(row["model"]) for row in each.models) or NONE
        counts = [each.counts.get(state, 0) for state in states]
        rows.append([named(each.version), stage, models, sum(each.counts.values()), *counts])
    names = [state.value for state in states]
    headings = ["version", "stage", "models seen", "tasks", *names]
    put(screen, table("Pipeline versions", headings, rows, right=headings[3:]))


def _show_reasons(screen: Console, title: str, found: Sequence[tuple[Row, Sequence[Row]]]) -> None:
    rows = [[named(version), row["reason"], row["count"]] for version, each in found for row in each]
    if rows:
        put(screen, table(title, ["version", "reason", "count"], rows, right=["count"]))


def _show_calls(screen: Console, versions: Sequence[VersionStatus]) -> None:
    names = ("calls", "corrections", "failed", "lost", "cost", "reserved", "cost_unknown")
    rows = [
        [named(v.version), *(money(v.calls[name]) for name in names)] for v in versions if v.calls["calls"]
    ]
    if rows:
        headings = ["version", "calls", "corrections", "failed", "lost", "cost", "lost calls, at reserve",
                    "of unknown cost"]  # fmt: skip
        put(screen, table("Calls in all", headings, rows, right=headings[1:]))


def _show_isolated(screen: Console, isolated: Sequence[Row]) -> None:
    if isolated:
        rows = [[row["error_code"], row["error_type"], row["count"]] for row in isolated]
        put(screen, table("Isolated", ["code", "type", "count"], rows, right=["count"]))


def _show_database(screen: Console, status: Status, server: ServerStatus | None) -> None:
    database, outbox = status.database, status.outbox
    oldest = f", the oldest of {shown(outbox['oldest_unpublished'])}" if outbox["unpublished"] else ""
    refused = f"; {outbox['refused']} refused, `assay publish --list-blocked`" if outbox["refused"] else ""
    waiting = f"{outbox['unpublished']} of {outbox['events']} events unpublished"
    screen.print(f"Outbox: {waiting}{oldest}{refused}.")
    kind = "" if database["kind"] == "production" else f", marked {database['kind']}"
    screen.print(
        f"Database: {shown(database['name'])}, {size(database['bytes'])}, PostgreSQL "
        f"{shown(database['server_version'])}{kind}."
    )
    if server is not None:
        screen.print(Text(f"Embedded server: {server_sentence(server)}"))


def server_sentence(server: ServerStatus) -> str:
    """The embedded server in a sentence."""
    if not server.running:
        return f"{server.phase.value}; it starts with the next command."
    used = ", in use" if server.clients_held else ", idle"
    return f"running (process {server.pid}, port {server.port}{used}); data in {server.data_dir}."


def size(number: object) -> str:
    """Bytes for people."""
    amount = float(str(number))
    for unit in ("bytes", "kB", "MB", "GB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TB"
