"""What `assay replay` shows, and what people do with a replay."""

from __future__ import annotations

from typing import Final

import typer

from assay.adapters.postgres.reading import Row
from assay.adapters.postgres.replay_store import Pacing, ReplayStore, Selection
from assay.cli.chosen import SHORT
from assay.cli.json_text import to_json
from assay.cli.opened import existing_database
from assay.cli.person import acting, worded
from assay.cli.tables import console, count, put, shown, table, when
from assay.config import load_settings
from assay.domain.replays import ReplayState, Stage

_COUNTS: Final = ("items", "waiting", "released", "succeeded", "failed", "overtaken", "barred")
_TO: Final = {
    "paused": ReplayState.PAUSED,
    "resumed": ReplayState.RUNNING,
    "stopped": ReplayState.STOPPED,
}


def plan_replay(
    fix_id: int,
    selection: Selection,
    pacing: Pacing,
    *,
    reason: str,
    by: str | None,
    call: bool,
    as_json: bool,
) -> None:
    """Plan it and say what it would do."""
    actor, why = acting(by), worded(reason)
    with existing_database(load_settings()) as url:
        store = ReplayStore(url)
        number = store.plan(fix_id, selection, pacing, actor=actor, reason=why, call=call)
        replay, barred = store.one(number), store.barred(number)
        stage = Stage(str(replay["stage"]))
        expected = store.expected(fix_id, stage, int(str(replay["waiting"])))
    if as_json:
        typer.echo(to_json({**replay, "barred_by": barred, "expected": expected}))
        return
    waiting = int(str(replay["waiting"]))
    typer.echo(
        f"Replay {number}, planned for fix {fix_id} ({replay['kind']}: {shown(replay['description'])})."
    )
    typer.echo(f"  {count(waiting, 'dead letter')} would run; first 1, then a sample of {pacing.sample}.")
    typer.echo(f"  stage: {_stage(stage)}")
    typer.echo(f"  expected: {_expected(expected)}")
    for row in barred:
        typer.echo(f"  barred: {row['items']} ({row['reason']})")
    typer.echo(f"Nothing has run. `assay replay run {number} PIPELINE.py` runs it.")


def _stage(stage: Stage) -> str:
    if stage is Stage.VALIDATE:
        return "validate: the kept responses are judged again, without a call"
    return "call: the model is asked again"


def _expected(expected: Row) -> str:
    cost = expected["cost"]
    money = "cost not known" if cost is None else f"cost about {shown(cost)}"
    return f"{count(int(str(expected['calls'])), 'call')}, {money}"


def show_all(*, as_json: bool) -> None:
    """A line each."""
    with existing_database(load_settings()) as url:
        found = ReplayStore(url).replays()
    if as_json:
        typer.echo(to_json(found))
    elif not found:
        typer.echo("There is no replay; `assay replay plan FIX` plans one.")
    else:
        headings = ("replay", "fix", "kind", "pipeline", "stage", "state", *_COUNTS, "planned")
        rows = [
            [row["replay"], row["fix"], row["kind"], row["pipeline"], row["stage"], row["state"],
             *(row[name] for name in _COUNTS), row["planned_at"]]
            for row in found
        ]  # fmt: skip
        put(console(), table("Replays", headings, rows, right=("replay", "fix", *_COUNTS)))


def show_one(replay_id: int, *, as_json: bool) -> None:
    """Counts and history."""
    with existing_database(load_settings()) as url:
        store = ReplayStore(url)
        replay, barred = store.one(replay_id), store.barred(replay_id)
        history = store.history(replay_id)
    if as_json:
        typer.echo(to_json({**replay, "barred_by": barred, "history": history}))
        return
    typer.echo(summary(replay))
    typer.echo(f"  fix {replay['fix']}: {replay['kind']}, {shown(replay['description'])}")
    to = replay["to_version"]
    lead = "" if to is None else f" to {str(to)[:SHORT]}"
    typer.echo(f"  version {str(replay['from_version'])[:SHORT]}{lead}; stage {replay['stage']}")
    for row in barred:
        typer.echo(f"  barred: {row['items']} ({row['reason']})")
    for row in history:
        typer.echo(f"  {_when(row['at'])} {row['kind']} by {shown(row['actor'])}: {shown(row['reason'])}")


def summary(replay: Row) -> str:
    """One line: state and counts."""
    counts = ", ".join(f"{replay[name]} {name}" for name in _COUNTS[1:] if replay[name])
    items = count(int(str(replay["items"])), "item")
    return f"Replay {replay['replay']} is {replay['state']}: {items}; {counts}."


def show_report(replay_id: int, *, as_json: bool) -> None:
    """What became of the items, by the code they had."""
    with existing_database(load_settings()) as url:
        store = ReplayStore(url)
        replay, found = store.one(replay_id), store.report(replay_id)
    if as_json:
        typer.echo(to_json({**replay, "report": found}))
        return
    typer.echo(summary(replay))
    rows = [[row["code"], row["state"], row["now"], row["items"], row["calls"], row["cost"]] for row in found]
    headings = ("before", "after", "reason", "items", "calls", "cost")
    put(console(), table("Before and after", headings, rows, right=("items", "calls", "cost")))


def act(replay_id: int, kind: str, *, reason: str, by: str | None) -> None:
    """Pause, resume or stop, and say what came of it."""
    actor, why = acting(by), worded(reason)
    with existing_database(load_settings()) as url:
        store = ReplayStore(url)
        changed = store.move(replay_id, _TO[kind], kind, actor=actor, reason=why)
        replay = store.one(replay_id)
    typer.echo(f"{summary(replay)}{'' if changed else ' Nothing was changed.'}")


def _when(moment: object) -> str:
    from datetime import datetime

    return when(moment) if isinstance(moment, datetime) else shown(moment)
