"""Budgets set and shown, for people and programs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import typer

from assay.adapters.postgres.budget_store import BudgetStore, CapKind, PipelineBudget
from assay.adapters.postgres.version_store import FoundVersion, VersionStore
from assay.cli.chosen import SHORT
from assay.cli.json_text import to_json
from assay.cli.opened import existing_database
from assay.cli.person import acting
from assay.cli.said import say
from assay.cli.status_now import money
from assay.cli.tables import NONE, console, put, shown, table
from assay.config import load_settings
from assay.domain.failures import ConfigurationError
from assay.domain.spend import amount

_CURRENCY: Final = re.compile(r"[A-Z]{3}")
_KINDS: Final[tuple[CapKind, ...]] = ("day", "total")


def change_caps(
    name: str, amounts: Mapping[CapKind, str | None], currency: str, by: str | None, *, as_json: bool
) -> None:
    """Set the caps that are given."""
    caps = {kind: amount(text) for kind, text in amounts.items() if text is not None}
    if not caps:
        raise ConfigurationError("Give --day AMOUNT, --total AMOUNT, or both.")
    if not _CURRENCY.fullmatch(currency):
        raise ConfigurationError("A currency is three capital letters, such as USD.")
    actor = acting(by)
    with existing_database(load_settings()) as url:
        store = BudgetStore(url)
        store.set(name, caps, currency, actor)
        found = store.read(name)
        known = [str(budget.pipeline["name"]) for budget in store.read() if budget.versions]
        latest = _latest(url, name) if name in known else None
    if name not in known:
        others = f" Registered are {', '.join(shown(each) for each in known)}." if known else ""
        say(f"No version of {shown(name)} is registered yet; the cap waits for it.{others}")
    elif latest is not None and not found[-1].versions[-1]["call_reserve"] and _calls_a_vendor(latest):
        say(
            f"No price is on record for the latest version of {shown(name)}: where neither its file (price="
            "Price(...)) nor the price list has one, runs under this cap are refused."
        )
    show(found, as_json=as_json)


def _latest(url: str, name: str) -> FoundVersion | None:
    store = VersionStore(url)
    listed = store.list(name)
    return store.resolve(listed[-1].pipeline_version, name) if listed else None


def _calls_a_vendor(version: FoundVersion) -> bool:
    return not str(version.definition.get("model", "")).startswith("recorded:")


def remove_caps(name: str, *, day: bool, total: bool, by: str | None, as_json: bool) -> None:
    """Take the named caps away."""
    wanted = [kind for kind, given in (("day", day), ("total", total)) if given]
    if not wanted:
        raise ConfigurationError("Give --day, --total, or both.")
    actor = acting(by)
    with existing_database(load_settings()) as url:
        store = BudgetStore(url)
        for kind in _KINDS:
            if kind in wanted and not store.clear(name, kind, actor):
                say(f"{shown(name)} had no cap per {kind}." if kind == "day" else
                     f"{shown(name)} had no cap in total.")  # fmt: skip
        found = store.read(name)
    show(found, as_json=as_json)


def show(found: Sequence[PipelineBudget], *, as_json: bool) -> None:
    """Print budgets: a table of pipelines, and one of their versions."""
    if as_json:
        typer.echo(to_json([_as_object(budget) for budget in found]))
        return
    if not found:
        typer.echo("No pipeline is registered yet, and none has a cap.")
        return
    screen = console()
    headings = ["pipeline", "cap per day", "today", "left today", "cap in all", "in all", "left in all",
                "held by workers", "currency"]  # fmt: skip
    rows = [
        [b.pipeline["name"], _cap(b, "day"), money(b.counted_today), _left(b, "day"), _cap(b, "total"),
         money(b.counted), _left(b, "total"), money(b.pipeline["reserved"]), b.pipeline["currency"]]
        for b in found
    ]  # fmt: skip
    put(screen, table("Budgets", headings, rows, right=headings[1:8]))
    headings = ["version", "today", "in all", "calls", "of unknown cost", "each counted at"]
    rows = [
        [_version(version), money(version["spent_today"]), money(version["spent"]), version["calls"],
         version["calls_unknown"], version["call_reserve"] if version["calls_unknown"] else None]
        for budget in found for version in budget.versions
    ]  # fmt: skip
    if rows:
        put(screen, table("Spent, by version", headings, rows, right=headings[1:]))


def _cap(budget: PipelineBudget, kind: CapKind) -> object:
    return budget.pipeline[f"{kind}_cap"]


def _left(budget: PipelineBudget, kind: CapKind) -> str:
    left = budget.left(kind)
    if left is None:
        return NONE
    return f"over by {shown(money(-left))}" if left < 0 else shown(money(left))


def _version(version: Mapping[str, object]) -> str:
    label = f" {shown(version['version_label'])}" if version["version_label"] else ""
    return f"{str(version['pipeline_version'])[:SHORT]}{label}"


def _as_object(budget: PipelineBudget) -> dict[str, object]:
    pipeline = budget.pipeline
    caps: dict[str, object] = {
        kind: None if pipeline[f"{kind}_cap"] is None else {
            "cap": pipeline[f"{kind}_cap"], "left": budget.left(kind),
            "set_at": pipeline[f"{kind}_set_at"], "set_by": pipeline[f"{kind}_set_by"],
        }
        for kind in _KINDS
    }  # fmt: skip
    return {
        "pipeline": pipeline["name"], "currency": pipeline["currency"], **caps,
        "counted_today": budget.counted_today, "counted": budget.counted,
        "reserved": pipeline["reserved"], "workers": pipeline["workers"], "versions": budget.versions,
    }  # fmt: skip
