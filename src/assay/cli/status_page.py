"""The status as a page for people, and as an object for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from rich.console import Console
from rich.text import Text

from assay.adapters.embedded.server import ServerStatus
from assay.adapters.postgres.status_store import Status, VersionStatus
from assay.cli.opened import NOTHING_YET
from assay.cli.tables import NONE, console, put, shown, table
from assay.domain.lifecycle import TaskState

Row = Mapping[str, object]
# The states that always have a column; the others have one where a task is in them.
_ALWAYS: Final = (TaskState.AUTO_CANDIDATE, TaskState.REVIEW_PENDING, TaskState.QUARANTINED)


def as_object(status: Status | None, server: ServerStatus | None) -> dict[str, object]:
    """Everything by name; a database of null where there is none yet."""
    embedded = None if server is None else server_object(server)
    if status is None:
        return {"database": None, "embedded_server": embedded, "versions": [], "results": [], "sources": [],
                "isolated": [], "outbox": None}  # fmt: skip
    return {
        "database": status.database,
        "embedded_server": embedded,
        "versions": [_version_object(each) for each in status.versions],
        "results": status.results,
        "sources": status.sources,
        "isolated": status.isolated,
        "outbox": status.outbox,
    }


def _version_object(each: VersionStatus) -> dict[str, object]:
    return {
        **each.version, "states": each.counts, **each.waiting, "calls": each.calls,
        "dead_letters": each.dead_letters, "reviews": each.reviews,
    }  # fmt: skip


def server_object(server: ServerStatus) -> dict[str, object]:
    """The embedded server by name."""
    return {
        "running": server.running, "phase": server.phase.value, "pid": server.pid, "port": server.port,
        "version": server.version, "in_use": server.clients_held,
        "data_dir": None if server.data_dir is None else str(server.data_dir),
        "log": None if server.log is None else str(server.log),
    }  # fmt: skip


def show(status: Status, server: ServerStatus | None) -> None:
    """Print the page."""
    screen = console()
    if not status.versions:
        screen.print(NOTHING_YET)
    else:
        _show_versions(screen, status.versions)
        _show_reasons(screen, "Open dead letters", [(v.version, v.dead_letters) for v in status.versions])
        _show_reasons(screen, "Open reviews", [(v.version, v.reviews) for v in status.versions])
        _show_waiting(screen, status.versions)
        _show_calls(screen, status.versions)
    _show_sources(screen, status.sources)
    _show_isolated(screen, status.isolated)
    _show_database(screen, status, server)


def _named(version: Row) -> str:
    label = f" {shown(version['version_label'])}" if version["version_label"] else ""
    return f"{shown(version['pipeline'])}{label} {str(version['pipeline_version'])[:12]}"


def _show_versions(screen: Console, versions: Sequence[VersionStatus]) -> None:
    states = [s for s in TaskState if s in _ALWAYS or any(v.counts.get(s) for v in versions)]
    rows = []
    for each in versions:
        stage = shown(each.version["stage"])
        frozen = f", frozen: {shown(each.version['frozen_reason'])}" if each.version["frozen"] else ""
        frozen += f", stopped: {shown(each.version['stopped'])}" if each.version["stopped"] else ""
        counts = [each.counts.get(state, 0) for state in states]
        rows.append([_named(each.version), stage + frozen, sum(each.counts.values()), *counts])
    names = [state.value for state in states]
    put(
        screen,
        table("Pipeline versions", ["version", "stage", "tasks", *names], rows, right=["tasks", *names]),
    )


def _show_reasons(screen: Console, title: str, found: Sequence[tuple[Row, Sequence[Row]]]) -> None:
    rows = [[_named(version), row["reason"], row["count"]] for version, each in found for row in each]
    if rows:
        put(screen, table(title, ["version", "reason", "count"], rows, right=["count"]))


def _show_waiting(screen: Console, versions: Sequence[VersionStatus]) -> None:
    names = ("live_leases", "expired_leases", "parked", "due", "next_due")
    rows = [[_named(v.version), *(v.waiting[name] for name in names)] for v in versions if
            any(v.waiting[name] for name in names)]  # fmt: skip
    if rows:
        headings = ["version", "leases held", "leases expired", "parked", "due now", "next due"]
        put(screen, table("At work and waiting", headings, rows, right=headings[1:5]))


def _show_calls(screen: Console, versions: Sequence[VersionStatus]) -> None:
    names = ("calls", "corrections", "failed", "lost", "cost", "reserved", "cost_unknown")
    rows = [[_named(v.version), *(v.calls[name] for name in names)] for v in versions if v.calls["calls"]]
    if rows:
        headings = ["version", "calls", "corrections", "failed", "lost", "cost", "lost calls, at reserve",
                    "of unknown cost"]  # fmt: skip
        put(screen, table("Calls", headings, rows, right=headings[1:]))


def _show_sources(screen: Console, sources: Sequence[Row]) -> None:
    rows = [
        [
            row["source"],
            NONE if row["pipeline"] is None else _named(row),
            row["committed_offset"],
            row["total"],
            row["inputs"],
            row["malformed"],
            row["conflicts"],
            row["duplicates"],
            row["updated_at"],
        ]
        for row in sources
    ]
    if rows:
        headings = ["source", "version", "records done", "of", "first seen here", "malformed", "conflicts",
                    "seen before", "at"]  # fmt: skip
        put(screen, table("Sources", headings, rows, right=headings[2:8]))


def _show_isolated(screen: Console, isolated: Sequence[Row]) -> None:
    if isolated:
        rows = [[row["error_code"], row["error_type"], row["count"]] for row in isolated]
        put(screen, table("Isolated", ["code", "type", "count"], rows, right=["count"]))


def _show_database(screen: Console, status: Status, server: ServerStatus | None) -> None:
    database, outbox = status.database, status.outbox
    oldest = f", the oldest of {shown(outbox['oldest_unpublished'])}" if outbox["unpublished"] else ""
    screen.print(f"Outbox: {outbox['unpublished']} of {outbox['events']} events unpublished{oldest}.")
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
