"""What goes on now, for people: vendor accounts, workers, parked work, the last hour, spend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final

from rich.console import Console

from assay.adapters.postgres.budget_store import CapKind, PipelineBudget
from assay.adapters.postgres.status_store import VersionStatus
from assay.adapters.postgres.version_events import STOPPED_BY_PERSON
from assay.cli.listing import Listing
from assay.cli.tables import NONE, put, shown, table
from assay.domain.failure_table import FAILURE_TABLE
from assay.domain.lifecycle import TaskState

Row = Mapping[str, object]
_UNSETTLED: Final = (TaskState.PROCESSING, TaskState.RETRY_SCHEDULED)
# The table of limits says where they are known from in these words.
_LIMITS_FROM: Final = {"headers": "the vendor's replies", "declared": "the run's options"}


def named(version: Row) -> str:
    """A version for people: pipeline, label, short digest."""
    label = f" {shown(version['version_label'])}" if version["version_label"] else ""
    return f"{shown(version['pipeline'])}{label} {str(version['pipeline_version'])[:12]}"


def left_out(each: VersionStatus) -> bool:
    """Whether lists leave a version out: a person stopped it, and none of its records was ever settled."""
    return each.version["stopped"] == STOPPED_BY_PERSON and not settled(each)


def settled(each: VersionStatus) -> int:
    """How many records of a version have been settled."""
    return sum(each.counts.values()) - sum(each.counts.get(state, 0) for state in _UNSETTLED)


def meaning(code: object) -> str:
    """What a code of the table of failures means; the code itself where it is none of them."""
    rule = FAILURE_TABLE.get(str(code))
    return shown(code) if rule is None else rule.meaning


def money(amount: object) -> object:
    """An amount without the zeros at its end."""
    return Decimal(f"{amount.normalize():f}") if isinstance(amount, Decimal) else amount


def show_vendors(screen: Console, accounts: Sequence[Row]) -> None:
    """Vendor accounts: breaker and limits."""
    rows = [
        [row["account"], shown(row["breaker_state"]).replace("_", " "), row["opened_at"], row["open_reason"],
         row["next_probe_at"], row["times_opened"], _rate(row["requests_per_minute"]),
         _rate(row["tokens_per_minute"]), _LIMITS_FROM.get(str(row["limits_source"]), NONE),
         _rate(row["permitted_per_minute"])]
        for row in accounts
    ]  # fmt: skip
    if rows:
        headings = ["account", "breaker", "since", "reason", "next probe", "times opened", "requests/min",
                    "tokens/min", "known from", "requests/min let through"]  # fmt: skip
        put(screen, _filled("Vendor accounts", headings, rows, right={*headings[5:8], headings[9]}))


def show_workers(screen: Console, workers: Sequence[Row]) -> None:
    """Who holds tasks, and who held some when it fell silent."""
    rows = [[w["worker"], w["live"], w["expired"], w["oldest_claim"], w["lease_until"]] for w in workers]
    if rows:
        headings = ["worker", "leases held", "leases expired", "oldest claim", "lease until"]
        put(screen, table("Workers", headings, rows, right=headings[1:3]))


def show_parked(screen: Console, versions: Sequence[VersionStatus]) -> None:
    """Parked work, and why it waits."""
    rows = [
        [named(v.version), row["reason"], row["count"], row["oldest"], row["next_due"]]
        for v in versions
        for row in v.parked
    ]
    if rows:
        headings = ["version", "reason", "parked", "oldest first claimed", "next due"]
        screen.print(table("Parked work", headings, rows, right=["parked"]))
        for reason in dict.fromkeys(row["reason"] for v in versions for row in v.parked):
            screen.print(f"  {shown(reason)}: {meaning(reason)}")
        screen.print()


def show_hour(screen: Console, versions: Sequence[VersionStatus]) -> None:
    """The calls of the last hour: figures per version, then how they ended."""
    busy = [v for v in versions if v.hour["calls"]]
    if not busy:
        return
    rows = [
        [named(v.version), v.hour["calls"], money(v.hour["cost"]), v.hour["input_tokens"],
         v.hour["cached_tokens"], v.hour["output_tokens"], _whole(v.hour["p50_ms"]), _whole(v.hour["p95_ms"])]
        for v in busy
    ]  # fmt: skip
    headings = ["version", "calls", "cost", "tokens in", "of them cached", "tokens out", "P50 ms", "P95 ms"]
    put(screen, table("Calls of the last hour", headings, rows, right=headings[1:]))
    rows = [
        [named(v.version), row["outcome"], row["code"], row["calls"], money(row["cost"]), row["cost_unknown"]]
        for v in busy
        for row in v.hour_outcomes
    ]
    headings = ["version", "outcome", "code", "calls", "cost", "of unknown cost"]
    put(screen, table("How they ended", headings, rows, right=headings[3:]))


def show_spend(screen: Console, budgets: Sequence[PipelineBudget]) -> None:
    """What was spent, beside the caps."""
    rows = [
        [b.pipeline["name"], money(b.counted_today), b.pipeline["day_cap"], _left(b, "day"), money(b.counted),
         b.pipeline["total_cap"], _left(b, "total"), money(at_reserve(b)) or None,
         money(b.pipeline["reserved"]), b.pipeline["currency"]]
        for b in budgets
        if b.counted or any(b.pipeline[f"{kind}_cap"] is not None for kind in ("day", "total"))
    ]  # fmt: skip
    if rows:
        headings = ["pipeline", "today", "cap per day", "left today", "in all", "cap in all", "left in all",
                    "of it unknown, at reserve", "held by workers", "currency"]  # fmt: skip
        put(screen, _filled("Spend", headings, rows, right=set(headings[1:9])))


def at_reserve(budget: PipelineBudget) -> Decimal:
    """The part of what counts as spent that nobody told: calls of unknown cost, at their reserve."""
    return budget.counted - sum((Decimal(str(row["spent"])) for row in budget.versions), Decimal(0))


def _left(budget: PipelineBudget, kind: CapKind) -> str | None:
    left = budget.left(kind)
    if left is None:
        return None
    return f"over by {shown(money(-left))}" if left < 0 else shown(money(left))


def _filled(
    title: str, headings: Sequence[str], rows: Sequence[Sequence[object]], right: set[str]
) -> Listing:
    """A table without the columns in which nothing is."""
    kept = [n for n in range(len(headings)) if any(row[n] not in (None, NONE) for row in rows)]
    return table(title, [headings[n] for n in kept], [[row[n] for n in kept] for row in rows], right=right)


def _rate(per_minute: object) -> str | None:
    return f"{per_minute:.0f}" if isinstance(per_minute, float) else None


def _whole(milliseconds: object) -> str | None:
    return f"{milliseconds:.0f}" if isinstance(milliseconds, float) else None
