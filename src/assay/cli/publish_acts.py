"""Acts on the outbox from the command line."""

from __future__ import annotations

from uuid import UUID

import typer

from assay.adapters.postgres.outbox_acts import OutboxActs
from assay.cli import tables
from assay.cli.json_text import to_json
from assay.cli.opened import existing_database
from assay.cli.person import acting, worded
from assay.config import load_settings
from assay.domain.failures import ConfigurationError


def show_blocked(*, as_json: bool) -> None:
    """The events that the sink refuses."""
    with existing_database(load_settings()) as url:
        found = OutboxActs(url).blocked()
    if as_json:
        typer.echo(to_json(found))
        return
    if not found:
        typer.echo("The sink refuses no event.")
        return
    rows = [
        [each.event_id, each.kind, f"{each.aggregate_kind} {each.aggregate_id}", each.revision, each.reason,
         each.tries, each.first_failed_at, each.not_before, each.behind]
        for each in found
    ]  # fmt: skip
    headings = ["event", "kind", "of", "revision", "refused for", "tries", "since", "next try", "behind it"]
    tables.put(tables.console(), tables.table("Refused events", headings, rows, right=["revision", "tries"]))


def park_event(event_id: str, reason: str | None, by: str | None, *, as_json: bool) -> None:
    """Take a refused event out of the way."""
    if reason is None:
        raise ConfigurationError("--park needs --reason: why consumers may do without this event.")
    actor, why = acting(by), worded(reason)
    try:
        named = UUID(event_id)
    except ValueError:
        raise ConfigurationError("--park takes an event id, as --list-blocked shows it.") from None
    with existing_database(load_settings()) as url:
        parked = OutboxActs(url).park(named, reason=why, actor=actor)
    if not parked:
        raise ConfigurationError(
            "The sink refuses no event of this id; `assay publish --list-blocked` lists them."
        )
    if as_json:
        typer.echo(to_json({"event_id": named, "parked": True}))
    else:
        typer.echo(f"Event {named} is parked; later events of its record go on.")


def drop(days: float, by: str | None, *, as_json: bool) -> None:
    """Drop the receipts of old days."""
    with existing_database(load_settings()) as url:
        dropped = OutboxActs(url).drop_receipts(older_than_days=days, actor=acting(by))
    if as_json:
        typer.echo(to_json({"days_dropped": dropped}))
    else:
        typer.echo(f"Receipts of {tables.count(dropped, 'day')} dropped.")
