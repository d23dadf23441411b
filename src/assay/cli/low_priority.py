"""`assay pipeline pause-low` and `resume-low`: one line about what came of it."""

from __future__ import annotations

import typer

from assay.adapters.postgres.low_priority_acts import LowPriorityActs
from assay.cli.json_text import to_json
from assay.cli.opened import existing_database
from assay.cli.person import acting, worded
from assay.cli.tables import shown
from assay.config import load_settings


def pause(name: str, reason: str, by: str | None, *, as_json: bool) -> None:
    """Records of low priority wait."""
    actor, why = acting(by), worded(reason)
    with existing_database(load_settings()) as url:
        changed, waiting = LowPriorityActs(url).pause(name, reason=why, actor=actor)
    what = "wait from now on" if changed else "were paused already"
    _tell(name, f"records of low priority {what}; {waiting} of them are parked",
          {"paused": True, "changed": changed, "waiting": waiting}, as_json=as_json)  # fmt: skip


def resume_paused(name: str, reason: str, by: str | None, *, as_json: bool) -> None:
    """Records of low priority are worked on again."""
    actor, why = acting(by), worded(reason)
    with existing_database(load_settings()) as url:
        changed, waiting = LowPriorityActs(url).resume(name, reason=why, actor=actor)
    what = "are worked on again" if changed else "were not paused"
    _tell(name, f"records of low priority {what}; {waiting} of them are parked",
          {"paused": False, "changed": changed, "waiting": waiting}, as_json=as_json)  # fmt: skip


def _tell(name: str, told: str, came_of_it: dict[str, object], *, as_json: bool) -> None:
    if as_json:
        typer.echo(to_json({"pipeline": name, **came_of_it}))
    else:
        typer.echo(f"{shown(name)}: {told}.")
