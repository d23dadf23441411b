"""Both ledgers on a terminal, and as an object for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path
from typing import Final

import typer
from rich.table import Table

from assay.cli.json_text import to_json
from assay.cli.tables import NONE, console, count
from assay.drill.ledgers import CANDIDATE, Account, Ledgers, Side

_SIDE: Final = (
    ("calls that reached the vendor", "calls"),
    ("of these paid", "paid"),
    ("paid again for a ticket that had its answer", "paid_again"),
    ("money paid", "cost"),
    ("labels that went into training", "labels"),
    ("  wrong against gold", "wrong"),
    ("  cut out of prose", "out_of_prose"),
    ("  confidence made from a string", "coerced"),
    ("  with a field dropped", "field_dropped"),
    ("  made up, the model named none", "fabricated"),
    ("  duplicates", "duplicates"),
)


def show(ledgers: Ledgers) -> None:
    """The table, and below it what the product knows beside it."""
    made = Table(
        title=f"{count(ledgers.messages, 'message')} of {count(ledgers.tickets, 'ticket')}, "
        f"{ledgers.replayed} came twice"
    )
    made.add_column("")
    made.add_column("script", justify="right")
    made.add_column("assay", justify="right")
    for told, name in _SIDE:
        made.add_row(told, _figure(ledgers.script, name), _figure(ledgers.assay, name))
    for told, figure in _only_assay(ledgers.account):
        made.add_row(told, NONE, str(figure))
    console().print(made)


def _figure(side: Side, name: str) -> str:
    figure: int | Decimal = getattr(side, name)
    if isinstance(figure, Decimal):
        return f"{figure:.4f}"
    if name == "wrong" and side.labels:
        return f"{figure} ({figure / side.labels:.1%})"
    return str(figure)


def _only_assay(account: Account) -> Iterator[tuple[str, object]]:
    refused = sum(account.first_pass_failures.values())
    yield "first answers refused by the contract", f"{refused} of {account.first_answers}"
    yield from _each(account.first_pass_failures)
    yield "asked once more", account.corrections
    yield "  and then right in form", account.corrected
    yield "candidates (auto_candidate)", account.states.get(CANDIDATE, 0)
    yield "for a person (review_pending)", account.states.get("review_pending", 0)
    yield "dead letters (quarantined)", account.states.get("quarantined", 0)
    yield from _each(account.quarantined_by_code)
    yield "calls lost in a kill, kept in the ledger", account.unknown_calls
    yield "messages that came twice, absorbed", account.duplicates_absorbed
    yield "events published", f"{account.published} of {account.events}"
    yield "different events at the consumer, applied once", f"{account.distinct_delivered}, {account.applied}"
    broken = len(account.audit.broken)
    yield (
        "invariants of `assay audit`",
        (f"{broken} of {account.audit.checked} broken" if broken else f"all {account.audit.checked} hold"),
    )


def _each(figures: Mapping[str, int]) -> Iterator[tuple[str, object]]:
    for code, figure in sorted(figures.items(), key=lambda item: (-item[1], item[0])):
        yield f"  {code}", figure


def show_object(ledgers: Ledgers, kept: Path | None) -> None:
    """The same as one JSON object; `folder` is where the drill is kept."""
    folder = None if kept is None else str(kept)
    typer.echo(to_json({"clean": not ledgers.broken, "folder": folder, **asdict(ledgers)}))
