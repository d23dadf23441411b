"""What needs somebody now, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

from assay.adapters.postgres.budget_store import CapKind, PipelineBudget
from assay.adapters.postgres.status_store import Status, VersionStatus
from assay.adapters.postgres.version_events import MODEL_CHANGED, STOPPED_BY_PERSON
from assay.cli.chosen import SHORT
from assay.cli.status_now import meaning, named, settled
from assay.cli.tables import count, shown
from assay.domain.spend import CLAIM_CALLS

_KINDS: Sequence[tuple[CapKind, str]] = (("day", "for today"), ("total", "in all"))


def alerts(status: Status, budgets: Sequence[PipelineBudget]) -> list[str]:
    """Stops, freezes, pauses, open breakers, reached caps, tasks whose worker is gone: a line each."""
    found: list[str] = []
    for version in status.versions:
        found += _of_version(version)
    found += [_of_pause(row) for row in status.low_priority]
    found += [_of_breaker(row) for row in status.accounts if row["breaker_state"] != "closed"]
    for budget in budgets:
        found += _of_caps(budget)
    expired = sum(int(str(worker["expired"])) for worker in status.workers)
    if expired:
        found.append(
            f"{count(expired, 'task')} lost the worker: its lease has expired; the next run takes over."
        )
    return found


def _of_version(each: VersionStatus) -> Iterator[str]:
    version, name = each.version, named(each.version)
    stopped = f"since {shown(version['stopped_at'])} by {shown(version['stopped_by'])}"
    frozen = f"since {shown(version['frozen_at'])} by {shown(version['frozen_by'])}"
    if version["stopped"] == STOPPED_BY_PERSON:
        yield (
            f"STOPPED: {name}, {stopped}: {shown(version['stopped_reason'])}. "
            f"It goes on after `assay pipeline resume {_digest(version)} --reason TEXT`."
        )
    elif version["stopped"]:
        status = f", HTTP {version['stopped_status']}" if version["stopped_status"] else ""
        yield (
            f"STOPPED: {name}, {stopped}: {shown(version['stopped'])}{status}. {meaning(version['stopped'])} "
            f"Once that is mended, the next run goes on.{_if_a_mistake(each)}"
        )
    if version["frozen"] and version["frozen_reason"] == MODEL_CHANGED:
        yield f"FROZEN: {name}, {frozen}: {_models(each.models, _digest(version))}"
    elif version["frozen"]:
        yield (
            f"FROZEN: {name}, {frozen}: {shown(version['frozen_reason'])}. Nothing becomes "
            f"auto_candidate until `assay pipeline unfreeze {_digest(version)} --reason TEXT`."
        )


def _if_a_mistake(each: VersionStatus) -> str:
    """How to be rid of a version whose model was mistyped, as long as it never settled anything."""
    if each.version["stopped"] != "provider_model_unknown" or settled(each):
        return ""
    digest = _digest(each.version)
    return f" A version by mistake leaves the lists with `assay pipeline stop {digest} --reason TEXT`."


def _digest(version: Mapping[str, object]) -> str:
    """What the commands of `assay pipeline` take for a version."""
    return str(version["pipeline_version"])[:SHORT]


def _models(models: Sequence[Mapping[str, object]], digest: str) -> str:
    """What changed, and what a person may do about it."""
    baseline = next((shown(row["model"]) for row in models if row["baseline"]), "another model")
    others = [shown(row["model"]) for row in models if not row["baseline"] and not row["approved"]]
    now = ", ".join(others) or "another one"
    return (
        f"model_changed. The vendor answers as {now}, where it began as {baseline}. Nothing becomes "
        f"auto_candidate until `assay pipeline approve {digest} --model MODEL --reason TEXT --unfreeze`, or "
        f"`assay pipeline unfreeze {digest} --reason TEXT`."
    )


def _of_pause(row: Mapping[str, object]) -> str:
    name = shown(row["pipeline"])
    return (
        f"LOW PRIORITY PAUSED: {name}, since {shown(row['since'])} by {shown(row['by'])}: "
        f"{shown(row['reason'])}. {count(int(str(row['waiting'])), 'task')} parked; they go on after "
        f"`assay pipeline resume-low {name} --reason TEXT`."
    )


def _of_breaker(row: Mapping[str, object]) -> str:
    if row["breaker_state"] == "half_open":
        probe = f"{shown(row['prober'])} probes it."
    else:
        probe = f"the next probe is at {shown(row['next_probe_at'])}."
    since, reason = shown(row["opened_at"]), row["open_reason"]
    return (
        f"VENDOR DOWN: {shown(row['account'])}, since {since}: {shown(reason)}. {meaning(reason)} "
        f"Calls wait; {probe}"
    )


def _of_caps(budget: PipelineBudget) -> Iterator[str]:
    for kind, when in _KINDS:
        left = budget.left(kind)
        if left is not None and left <= _least(budget):
            currency = shown(budget.pipeline["currency"])
            yield (
                f"SPEND CAP: of {shown(budget.pipeline[f'{kind}_cap'])} {currency} for "
                f"{shown(budget.pipeline['name'])} {when} less is left than one record may cost. "
                "`assay budget set` raises it."
            )


def _least(budget: PipelineBudget) -> Decimal:
    """What has to be left for another claim: the worst case of one record, of the cheapest version."""
    reserves = [Decimal(str(row["call_reserve"])) for row in budget.versions]
    return min((CLAIM_CALLS * each for each in reserves if each), default=Decimal(0))
