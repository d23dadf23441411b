"""What people do with dead letters: one, several by number, or all that filters find."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import typer

from assay.adapters.postgres.dead_letter_acts import Acted, DeadLetterActs, Terms
from assay.adapters.postgres.dead_letter_store import DeadLetterStore
from assay.cli.dlq_filter import seconds
from assay.cli.json_text import to_json
from assay.cli.opened import existing_database
from assay.cli.person import acting, worded
from assay.cli.tables import count
from assay.config import load_settings
from assay.domain.dead_letters import DUE_AFTER_SECONDS, LetterFilter
from assay.domain.failures import ConfigurationError

_ANY = LetterFilter()


@dataclass(frozen=True, slots=True)
class Target:
    """Which dead letters, who acts, whether it is done or only counted."""

    ids: Sequence[int] | None
    which: LetterFilter
    by: str | None
    yes: bool = False
    as_json: bool = False


def assign_letters(target: Target, owner: str | None, reason: str | None) -> None:
    """Somebody has them, or nobody."""
    if owner is not None and (not owner.strip() or not owner.isprintable()):
        raise ConfigurationError("--owner is a name in printable characters.")
    actor, why = acting(target.by), None if reason is None else worded(reason)

    def some(acts: DeadLetterActs, ids: Sequence[int]) -> Acted:
        if owner is None:
            return acts.unassign(ids, actor=actor, reason=why)
        return acts.assign(ids, owner=owner, actor=actor, reason=why)

    def all_of(acts: DeadLetterActs, up_to: int) -> Acted:
        return acts.assign_all(target.which, up_to=up_to, owner=owner, actor=actor, reason=why)

    _act(target, "given back" if owner is None else f"assigned to {owner}", some, all_of)


def close_letters(target: Target, reason: str) -> None:
    """Nothing will come of them."""
    actor, why = acting(target.by), worded(reason)
    _act(
        target, "closed", lambda acts, ids: acts.close(ids, actor=actor, reason=why),
        lambda acts, up_to: acts.close_all(target.which, up_to=up_to, actor=actor, reason=why),
    )  # fmt: skip


def _act(
    target: Target, done_so: str, some: Callable[[DeadLetterActs, Sequence[int]], Acted],
    all_of: Callable[[DeadLetterActs, int], Acted],
) -> None:  # fmt: skip
    """Act on the ids, or on what the filters find: those are counted first, and done with --yes alone."""
    if target.ids and target.which != _ANY:
        raise ConfigurationError("Give numbers or filters, not both.")
    if not target.ids and target.which == _ANY:
        raise ConfigurationError("Say which: numbers, or filters such as --fingerprint HEX.")
    with existing_database(load_settings()) as url:
        acts = DeadLetterActs(url)
        if target.ids:
            _tell(some(acts, target.ids), done_so, as_json=target.as_json)
            return
        found = DeadLetterStore(url).count(target.which)
        if target.yes:
            typer.echo(f"{count(found.total, 'dead letter')} found.", err=True)
            _tell(all_of(acts, found.last), done_so, as_json=target.as_json)
            return
    if target.as_json:
        typer.echo(to_json({"run": False, "found": found.total, "by_state": found.by_state}))
    elif not found.total:
        typer.echo("No dead letter matches.")
    else:
        states = ", ".join(f"{number} {state}" for state, number in found.by_state.items())
        typer.echo(
            f"{count(found.total, 'dead letter')} would be {done_so} ({states}). Nothing was changed; --yes "
            "does it."
        )


def _tell(done: Acted, done_so: str, *, as_json: bool) -> None:
    if as_json:
        figures = {"changed": done.changed, "as_before": done.as_before, "replaying": done.replaying}
        typer.echo(to_json({"run": True} | figures))
        return
    rest = f"; {done.as_before} stayed as before" if done.as_before else ""
    rest += f"; {done.replaying} being replayed, left alone" if done.replaying else ""
    typer.echo(f"{count(done.changed, 'dead letter')} {done_so}{rest}.")


def show_or_set_terms(
    pipeline: str, due: str | None, expire: str | None, by: str | None, *, default: bool, as_json: bool
) -> None:
    """When dead letters of the pipeline are due and expire."""
    if default and (due is not None or expire is not None):
        raise ConfigurationError("--default stands alone: it takes --due and --expire back.")
    with existing_database(load_settings()) as url:
        acts = DeadLetterActs(url)
        now = acts.terms(pipeline)
        if default or due is not None or expire is not None:
            kept = Terms() if default else now
            now = Terms(
                kept.due_seconds if due is None else _longer("--due", due),
                kept.expire_seconds if expire is None else _longer("--expire", expire),
            )
            acts.set_terms(pipeline, now, actor=acting(by))
    due_seconds = DUE_AFTER_SECONDS if now.due_seconds is None else now.due_seconds
    if as_json:
        typer.echo(to_json({"pipeline": pipeline, "due_seconds": due_seconds,
                            "expire_seconds": now.expire_seconds}))  # fmt: skip
        return
    expiry = "never expire" if now.expire_seconds is None else f"expire after {_span(now.expire_seconds)}"
    typer.echo(f"{pipeline}: dead letters are due after {_span(due_seconds)} and {expiry}.")


def _longer(option: str, text: str) -> float:
    length = seconds(option, text)
    if length == 0:
        raise ConfigurationError(f"{option} is longer than nothing.")
    return length


def _span(length: float) -> str:
    """Seconds in the largest unit that needs no fraction."""
    for size, unit in ((86_400, "day"), (3600, "hour"), (60, "minute")):
        if length % size == 0:
            return count(int(length // size), unit)
    return count(int(length), "second")
