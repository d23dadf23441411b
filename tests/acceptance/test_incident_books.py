"""The product's ledger and the vendor's journal agree to the last call; where they do not, it is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
from incidents import PRICE_LIST, check_the_end, on_an_ordinary_day, run_to_the_end
from ledger_against_journal import LedgerCall, TwoBooks, two_books

from assay.vendor.entries import Entry
from assay.vendor.server import start_vendor
from labelling_project import Project
from practice_runs import run_tickets, ticket_project

TICKETS_IN_FILE = 400


async def test_an_ordinary_day(tmp_path: Path, db_url: str) -> None:
    """Every call of a run with ordinary faults, in both books; then every way of falsifying one of them."""
    project = ticket_project(tmp_path, db_url, TICKETS_IN_FILE)
    async with start_vendor(on_an_ordinary_day(project)) as vendor:
        await run_to_the_end(project, run_tickets(vendor.base_url, "--quiet", concurrency=100))
        stats = vendor.stats()
    found = check_the_end(project, TICKETS_IN_FILE)
    assert len(found.ledger) == stats.calls > TICKETS_IN_FILE
    assert found.lost == found.keys("unknown") == set()
    # The vendor billed most of them, and told nobody how much.
    assert {found.ledger[key].code for key in found.keys("untold")} <= {
        None, "provider_bad_reply", "provider_connection"
    }  # fmt: skip
    assert stats.cost == PRICE_LIST.cost(
        stats.prompt_tokens, stats.cached_tokens, stats.completion_tokens
    )  # fmt: skip
    assert 0 < found.spent < stats.cost
    assert stats.cached_tokens > 0
    outcomes = {call.outcome for call in found.ledger.values()}
    assert outcomes == {"accepted", "rejected", "failed"}
    check_that_falsifying_is_noticed(project, found)


# --- negative controls --------------------------------------------------------------------------------------


def edit_line(change: Callable[[dict[str, Any]], None]) -> Callable[[list[str]], list[str]]:
    """Change the journal's first line of an accepted answer."""

    def edit(lines: list[str]) -> list[str]:
        place, line = next(
            (place, line) for place, line in enumerate(map(json.loads, lines))
            if line["status"] == 200 and line["fault"] is None
        )  # fmt: skip
        change(line)
        return [*lines[:place], json.dumps(line), *lines[place + 1 :]]

    return edit


FALSE_JOURNALS: dict[str, Callable[[list[str]], list[str]]] = {
    "never seen by the vendor": lambda lines: lines[1:],
    "sent more than once": lambda lines: [*lines, lines[0]],
    "of no attempt": edit_line(lambda line: line.update(idempotency_key="another.1.1")),
    "ledger (": edit_line(lambda line: line.update(prompt_tokens=line["prompt_tokens"] + 1)),
    "the vendor billed": edit_line(lambda line: line.update(cost="0.5")),
}
FALSE_LEDGERS = {
    "journalled and not in the ledger": "DELETE FROM assay.calls WHERE call_id = {call}",
    "ledger (": "UPDATE assay.calls SET cached_tokens = cached_tokens - 1 WHERE call_id = {call}",
    "the vendor billed": "UPDATE assay.calls SET cost = cost + 0.000001 WHERE call_id = {call}",
    "its cost is not in the ledger": "UPDATE assay.calls SET cost = NULL, input_tokens = NULL,"
                                     " output_tokens = NULL WHERE call_id = {call}",
    "calls were added up": "UPDATE assay.spend SET calls = calls + 1",
    "more than its reserve": "UPDATE assay.calls SET outcome = 'outcome_unknown', cost = 0"
                             " WHERE call_id = {call}",
}  # fmt: skip


def check_that_falsifying_is_noticed(project: Project, whole: TwoBooks) -> None:
    lines = (project.folder / "journal.jsonl").read_text(encoding="utf-8").splitlines()
    for told, edit in FALSE_JOURNALS.items():
        project.write("false.jsonl", "\n".join(edit(lines)) + "\n")
        said = two_books(project, project.folder / "false.jsonl").discrepancies()
        assert any(told in one for one in said), (told, said)
    call = project.one("SELECT min(call_id) FROM assay.calls WHERE outcome = 'accepted'")
    for told, edit_ledger in FALSE_LEDGERS.items():
        said = falsified(project, edit_ledger.format(call=call)).discrepancies()
        assert any(told in one for one in said), (told, said)
    assert two_books(project) == whole


@dataclass(frozen=True, slots=True)
class OneConnection(Project):
    """Reads on one connection, so that it sees a transaction that is not committed."""

    connection: psycopg.Connection[Any]

    def rows(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        return self.connection.execute(query.encode(), parameters).fetchall()


def falsified(project: Project, statement: str) -> TwoBooks:
    """The books after a statement that is rolled back."""
    with psycopg.connect(project.database_url) as connection:
        connection.execute(statement.encode())
        seen = two_books(OneConnection(project.folder, project.database_url, connection))
        connection.rollback()
    return seen


def test_a_lost_call_is_charged_at_its_reserve() -> None:
    key, reserve = "a.1.1", Decimal("0.03")
    entry = Entry(
        "run", 1, "2026-01-01T00:00:00Z", key, "req-1", outcome="client_gone", billed=True, cost="0.02"
    )
    call = LedgerCall("outcome_unknown", None, None, True, None, (0, 0, 0), reserve)
    good = TwoBooks(((key, entry),), {key: call}, frozenset({"a.1"}), reserve, 1, reserve)
    assert good.discrepancies() == []
    assert good.lost == {key}
    # A call that was claimed and never sent is charged as well: nobody can tell the two apart.
    assert replace(good, journal=()).discrepancies() == []
    for wrong in (
        replace(good, ledger={key: replace(call, cost=Decimal("0.01"))}),
        replace(good, spent=Decimal("0.02")),
        replace(good, reserve=Decimal("0.01"), ledger={key: replace(call, cost=Decimal("0.01"))}),
        replace(good, ledger={key: replace(call, outcome="failed", code="provider_auth")}, journal=()),
    ):
        assert wrong.discrepancies() != []
