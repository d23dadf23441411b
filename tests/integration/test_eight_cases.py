"""The cases that the product exists for, each on a real PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Final

import pytest
from finishes import COST, accepted
from scripted_run import CALL_COST, ScriptedModel, Ticket, run
from stores import RESERVE, Bench, Station, open_bench, race, stations
from waiting import deadlocks

from assay.domain.correction import correction_text
from assay.domain.identity import InputRecord, SourcePosition
from assay.domain.sealing import raw_aad
from assay.domain.work import ClaimedTask, FinishOutcome, Isolation, Offer, Verdict
from assay.ports import ModelRequest

pytestmark = pytest.mark.eight_cases

MEETINGS: Final = 300
SECRET: Final = "Zmeinogorsk-4711"
"""Stands in the record and in every refused answer; must not be found where user data has no place."""

GOOD: Final = json.dumps({"category": "billing", "confidence": 0.93, "reason": f"asks about {SECRET}"})


def _changed(**changes: object) -> str:
    return json.dumps({**json.loads(GOOD), **changes})


@dataclass(frozen=True)
class Malformed:
    """A malformed answer and the code that it is refused with."""

    answer: str
    code: str


STRING_CONFIDENCE: Final = Malformed(_changed(confidence="0.93"), "schema_type_error")
PROSE: Final = Malformed(f"Here is the result:\n{GOOD}", "json_invalid")
CHINESE_PROSE: Final = Malformed(f"以下是结果：{GOOD}", "json_invalid")
EXTRA_FIELD: Final = Malformed(_changed(note=SECRET), "schema_extra_field")
MALFORMED: Final = {
    "string confidence": STRING_CONFIDENCE, "prose prefix": PROSE, "Chinese prose prefix": CHINESE_PROSE,
    "extra field": EXTRA_FIELD,
}  # fmt: skip

each_malformed = pytest.mark.parametrize("first", MALFORMED.values(), ids=MALFORMED.keys())


@pytest.fixture
def bench(db_url: str) -> Iterator[Bench]:
    with open_bench(db_url) as opened:
        yield opened


def _labelled(bench: Bench, *answers: str) -> list[ModelRequest]:
    """One record through a whole run; what the model was asked."""
    model = ScriptedModel({"r": answers})
    run(bench, [bench.offer("r", text=f"ticket of {SECRET}").record], model)
    return model.requests


def _asked_once_more(requests: list[ModelRequest]) -> None:
    """The second request is the first plus the fixed text: no refused answer, no other user data."""
    first, second = requests
    assert first.messages == (("system", "Sort the ticket."), ("user", f"Ticket: ticket of {SECRET}"))
    assert second.messages == (
        first.messages[0],
        ("system", correction_text(Ticket)),
        first.messages[1],
    )
    assert SECRET not in correction_text(Ticket)
    assert (first.pass_number, second.pass_number) == (1, 2)
    assert first.idempotency_key != second.idempotency_key
    assert (first.parameters, first.json_schema) == (second.parameters, second.json_schema)


def _task(bench: Bench) -> tuple[object, ...]:
    return tuple(*bench.rows("SELECT state::text, first_pass_code, error_code FROM assay.annotation_tasks"))


def _calls(bench: Bench) -> list[tuple[object, ...]]:
    return bench.rows("SELECT pass_number, outcome, code, billed, cost FROM assay.calls ORDER BY call_id")


def _outside_of_the_vault(bench: Bench) -> str:
    """All plain columns of all tables, as text."""
    tables = bench.rows("SELECT tablename::text FROM pg_tables WHERE schemaname = 'assay'")
    return "\n".join(
        str(row) for (table,) in tables for row in bench.db.execute(f"SELECT t::text FROM assay.{table} t")
    )


@each_malformed
def test_refused_corrected_once_and_accepted(bench: Bench, first: Malformed) -> None:
    _asked_once_more(_labelled(bench, first.answer, GOOD))
    assert _task(bench) == ("auto_candidate", first.code, None)
    assert _calls(bench) == [
        (1, "rejected", first.code, True, CALL_COST),
        (2, "accepted", None, True, CALL_COST),
    ]
    assert bench.rows(
        "SELECT label_json, first_pass_code, second_pass_code FROM assay.annotation_outputs"
    ) == [({"category": "billing", "confidence": 0.93}, first.code, None)]
    assert bench.rows("SELECT kind, revision FROM assay.outbox_events") == [("completed", 1)]
    assert SECRET not in _outside_of_the_vault(bench)


@each_malformed
def test_refused_twice_is_a_dead_letter_with_both_codes(bench: Bench, first: Malformed) -> None:
    second = STRING_CONFIDENCE if first is not STRING_CONFIDENCE else EXTRA_FIELD
    _asked_once_more(_labelled(bench, first.answer, second.answer))
    assert _task(bench) == ("quarantined", first.code, second.code)
    assert _calls(bench) == [
        (1, "rejected", first.code, True, CALL_COST),
        (2, "rejected", second.code, True, CALL_COST),
    ]
    assert bench.rows(
        "SELECT failure_class, kind, first_pass_code, error_code, attempts, state FROM assay.dead_letters"
    ) == [("contract", "malformed", first.code, second.code, 1, "open")]
    assert bench.rows(
        "SELECT label_json, first_pass_code, second_pass_code FROM assay.annotation_outputs"
    ) == [(None, first.code, second.code)]
    assert bench.rows("SELECT kind, revision FROM assay.outbox_events") == [("quarantined", 1)]
    assert SECRET not in _outside_of_the_vault(bench)


# --- two connections --------------------------------------------------------------------------------------


async def _claim(station: Station, offers: list[Offer]) -> tuple[list[ClaimedTask], list[Verdict]]:
    claims = await station.claims.claim(station.bench.source_id, offers)
    return [task for _, task in claims.won], [each.verdict for each in claims.not_won]


def test_two_connections_claim_one_key_and_one_wins(bench: Bench) -> None:
    with stations(bench, 2) as (a, b):
        for number in range(MEETINGS):
            offer = bench.offer(f"r{number}")
            answers = race((a, partial(_claim, a, [offer])), (b, partial(_claim, b, [offer])))
            ((winner,),) = [won for won, _ in answers if won]
            assert [verdicts for won, verdicts in answers if not won] == [[Verdict.IN_PROGRESS]]
            held = bench.rows(
                "SELECT attempt_id FROM assay.annotation_tasks WHERE task_id = %s", winner.task_id
            )
            assert held == [(winner.attempt_id,)]
    assert bench.one("SELECT count(*) FROM assay.task_history") == MEETINGS
    assert deadlocks(bench.db) == 0


def test_batches_in_opposite_orders_never_deadlock(bench: Bench) -> None:
    with stations(bench, 2) as (a, b):
        for number in range(MEETINGS):
            offers = [bench.offer(f"r{number:04d}-{each:02d}") for each in range(20)]
            answers = race((a, partial(_claim, a, offers)), (b, partial(_claim, b, offers[::-1])))
            winners = [task.record_id for won, _ in answers for task in won]
            assert sorted(winners) == sorted(offer.record.record_id for offer in offers)
    assert deadlocks(bench.db) == 0


# --- lost leases --------------------------------------------------------------------------------------------


_KNOWN: Final = (
    "SELECT i, t, o, x FROM assay.inputs i JOIN assay_vault.texts x ON x.text_ref = i.encrypted_text_ref "
    "JOIN assay.annotation_tasks t USING (record_id, input_version) "
    "LEFT JOIN assay.annotation_outputs o USING (task_id)"
)
"""All that is known of the records: inputs with their texts, tasks and outputs."""


def test_a_lease_that_ended_is_taken_over_and_its_late_result_changes_nothing(bench: Bench) -> None:
    paid = Decimal("0.0042")
    ledger = "SELECT attempt_id, outcome, cost FROM assay.calls ORDER BY call_id"
    with stations(bench, 2) as (a, b):
        lost = a.claim_one(bench.offer("r"))
        bench.advance(91)
        task = b.claim_one(bench.offer("r"))
        assert task.taken_over
        assert bench.rows(ledger) == [(lost.attempt_id, "outcome_unknown", RESERVE)]

        before = bench.rows("SELECT t, xmin FROM assay.annotation_tasks t")
        (late,) = a.finish(accepted(lost, paid))
        assert (late.outcome, late.state) == (FinishOutcome.LEASE_LOST, None)
        assert bench.rows("SELECT t, xmin FROM assay.annotation_tasks t") == before
        assert bench.rows(ledger) == [(lost.attempt_id, "lease_lost", paid)]
        assert bench.one("SELECT count(*) FROM assay.outbox_events") == 0

        assert b.finish(accepted(task))[0].outcome is FinishOutcome.DONE
        stands = bench.rows(_KNOWN)
        # Told again, after the end: still nothing but what is in the ledger already.
        assert a.finish(accepted(lost, paid))[0].outcome is FinishOutcome.LEASE_LOST
        assert bench.rows(_KNOWN) == stands
        assert bench.rows(ledger) == [
            (lost.attempt_id, "lease_lost", paid), (task.attempt_id, "accepted", COST),
        ]  # fmt: skip
    assert bench.one("SELECT attempt_id FROM assay.annotation_outputs") == task.attempt_id


# --- other content under a known identity ---------------------------------------------------------------


def _isolated(bench: Bench, record: InputRecord, log: pytest.LogCaptureFixture) -> None:
    """The record is kept apart, its bytes in the vault, with an event and an alert."""
    ((source_id, partition, offset, code, record_id, sha256, wrapped, kek_id, sealed),) = bench.rows(
        "SELECT i.source_id, i.partition_no, i.source_offset, i.error_code, i.record_id, i.offered_sha256, "
        "r.wrapped_key, r.kek_id, r.ciphertext "
        "FROM assay.isolated_records i JOIN assay_vault.raws r USING (raw_ref)"
    )
    assert SourcePosition(partition, offset) == record.position
    assert (code, record_id, sha256) == (
        "input_version_conflicts_with_content", record.record_id, record.sha256,
    )  # fmt: skip
    key = bench.vault.unwrap(wrapped, kek_id)
    assert bench.vault.open(key, sealed, raw_aad(source_id, partition, offset)).decode() == record.text
    assert bench.rows(
        "SELECT payload ->> 'record_id', payload ->> 'error_code' FROM assay.outbox_events "
        "WHERE kind = 'conflict'"
    ) == [(record.record_id, code)]
    alerts = [entry.getMessage() for entry in log.records if entry.levelname == "ERROR"]
    assert alerts == ["input_conflict"]
    assert record.text not in log.text
    assert record.text not in _outside_of_the_vault(bench)


def test_other_content_is_isolated_and_overwrites_nothing(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    _labelled(bench, GOOD)
    known = bench.rows(_KNOWN)
    other = bench.offer("r", text=f"another ticket of {SECRET}").record
    model = ScriptedModel({})
    assert run(bench, [other], model).conflicts == 1
    assert model.requests == []
    assert bench.rows(_KNOWN) == known
    _isolated(bench, other, caplog)
    # Delivered once more from the same position, it is isolated already.
    with Station(bench, "again") as again:
        source_id = bench.one("SELECT source_id FROM assay.isolated_records")
        assert again.run(again.sources.isolate(source_id, [Isolation.of_conflict(other)])) == 0
    assert bench.one("SELECT count(*) FROM assay.isolated_records") == 1
    assert bench.one("SELECT count(*) FROM assay.outbox_events WHERE kind = 'conflict'") == 1


def test_other_content_while_the_first_is_being_processed(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    with Station(bench, "holder") as holder:
        task = holder.claim_one(bench.offer("r"))
        known = bench.rows(_KNOWN)
        other = bench.offer("r", text=f"another ticket of {SECRET}").record
        assert run(bench, [other], ScriptedModel({})).conflicts == 1
        assert bench.rows(_KNOWN) == known
        _isolated(bench, other, caplog)
        # Not even once the lease has ended: the wrong content takes nothing over.
        bench.advance(91)
        assert [each.verdict for each in holder.claim([bench.offer("r", text="third")]).not_won] == [
            Verdict.CONFLICT
        ]
        assert holder.finish(accepted(task))[0].outcome is FinishOutcome.DONE
    assert bench.rows("SELECT state::text FROM assay.annotation_tasks") == [("auto_candidate",)]
