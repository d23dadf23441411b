"""The status as an object for programs: names that stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assay.adapters.embedded.server import ServerStatus
from assay.adapters.postgres.budget_store import PipelineBudget
from assay.adapters.postgres.status_store import Status, VersionStatus
from assay.cli.status_now import at_reserve, left_out


def as_object(
    status: Status | None, budgets: Sequence[PipelineBudget], server: ServerStatus | None
) -> dict[str, object]:
    """Everything by name; a database of null where there is none yet."""
    embedded = None if server is None else server_object(server)
    if status is None:
        return {
            "database": None, "embedded_server": embedded, "versions": [], "accounts": [], "budgets": [],
            "workers": [], "results": [], "sources": [], "isolated": [], "outbox": None,
            "low_priority": [],
        }  # fmt: skip
    return {
        "database": status.database,
        "embedded_server": embedded,
        "versions": [_version_object(each) for each in status.versions],
        "accounts": status.accounts,
        "budgets": [_budget_object(each) for each in budgets],
        "workers": status.workers,
        "results": status.results,
        "sources": status.sources,
        "isolated": status.isolated,
        "outbox": status.outbox,
        "low_priority": status.low_priority,
    }


def _version_object(each: VersionStatus) -> dict[str, object]:
    return {
        **each.version, "left_out": left_out(each), "models_seen": each.models,
        "states": each.counts, **each.waiting, "parked_by_reason": each.parked, "calls": each.calls,
        "last_hour": {**each.hour, "outcomes": each.hour_outcomes},
        "dead_letters": each.dead_letters, "reviews": each.reviews,
    }  # fmt: skip


def _budget_object(budget: PipelineBudget) -> dict[str, object]:
    pipeline = budget.pipeline
    return {
        "pipeline": pipeline["name"], "currency": pipeline["currency"],
        "spent_today": budget.counted_today, "day_cap": pipeline["day_cap"], "day_left": budget.left("day"),
        "spent": budget.counted, "total_cap": pipeline["total_cap"], "total_left": budget.left("total"),
        "at_reserve": at_reserve(budget), "reserved": pipeline["reserved"],
    }  # fmt: skip


def server_object(server: ServerStatus) -> Mapping[str, object]:
    """The embedded server by name."""
    return {
        "running": server.running, "phase": server.phase.value, "pid": server.pid, "port": server.port,
        "version": server.version, "in_use": server.clients_held,
        "data_dir": None if server.data_dir is None else str(server.data_dir),
        "log": None if server.log is None else str(server.log),
    }  # fmt: skip
