"""Dead letters as the finish writes them, as filters find them and as cohorts add them up."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import uuid4

import psycopg
import pytest
from audit_situations import KEK, Line, register
from letters import ANY, COST, EXHAUSTED, REFUSED, Place, at_item, placed, refused

from assay.adapters.postgres import migrate as module
from assay.adapters.postgres.dead_letter_acts import Terms
from assay.adapters.postgres.migrate import migrate, migrations
from assay.adapters.vault import Vault
from assay.domain.dead_letters import LetterFilter, LetterState, fields_of, fingerprint
from assay.domain.failures import ConfigurationError
from assay.domain.work import CallOutcome, CallRecord, Passes, park
from assay.pipeline.attempt import idempotency_key

ERRORS: Final[tuple[tuple[tuple[str, str], ...], ...]] = (
    (), (("", "json_invalid"),), (("/items/0/amount", "float_type"), ("/items/1/amount", "float_type")),
    (("/b", "x"), ("/a/10/2", "y"), ("/a/3", "y"), ("/ü/1", "z"), ("/Z", "z"), ("/1a/2", "z")),
)  # fmt: skip


@pytest.fixture
async def place(db_url: str) -> AsyncIterator[Place]:
    async with placed(db_url) as made:
        yield made


@pytest.mark.parametrize("errors", ERRORS)
@pytest.mark.parametrize("kind", [None, "malformed"])
def test_sql_and_code_say_the_same(
    db_url: str, errors: tuple[tuple[str, str], ...], kind: str | None
) -> None:
    told = json.dumps([{"path": path, "type": type_} for path, type_ in errors])
    with psycopg.connect(db_url) as connection:
        row = connection.execute(
            "SELECT assay.dead_letter_fingerprint('c', %s, %s::jsonb), assay.dead_letter_fields(%s::jsonb)",
            (kind, told, told),
        ).fetchone()
    assert row == (fingerprint("c", kind, errors), list(fields_of(errors)))


@pytest.fixture
def before(db_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The same database as it was before dead letters had fingerprints."""
    with psycopg.connect(db_url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA assay CASCADE")
        connection.execute("DROP SCHEMA assay_vault CASCADE")
        connection.execute("DELETE FROM public.assay_migrations")
    shipped = migrations()
    with monkeypatch.context() as older:
        older.setattr(module, "migrations", lambda: shipped[:13])
        migrate(db_url)
    return db_url


def test_the_migration_fills_what_was_there(before: str) -> None:
    with psycopg.connect(before, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute(
            "INSERT INTO assay.inputs (record_id, input_version, input_sha256, encrypted_text_ref, "
            "source_id, partition_no, source_offset, customer, document_type, language, first_seen_at) "
            "VALUES ('r', 1, sha256('x'), 1, 7, 0, 0, 'acme', 'mail', 'de', now())"
        )
        connection.execute(
            "INSERT INTO assay.annotation_tasks (task_id, record_id, input_version, version_id, "
            "input_sha256, encrypted_text_ref, state, attempts, quality_probability, quality_selected, "
            "first_claimed_at, moves, last_move, last_moved_at, last_actor, error_code) "
            "OVERRIDING SYSTEM VALUE VALUES (1, 'r', 1, 1, sha256('x'), 1, 'quarantined', 1, 0, false, "
            "now(), 2, 'dead_letter', now(), 'w', 'json_invalid')"
        )
        for number, errors in enumerate(ERRORS, start=1):
            told = json.dumps([{"path": path, "type": type_} for path, type_ in errors])
            connection.execute(
                "INSERT INTO assay.dead_letters (task_id, attempt_id, version_id, error_code, failure_class, "
                "kind, errors, attempts, first_attempt_at, last_attempt_at) "
                "VALUES (%s, gen_random_uuid(), 1, 'c', 'contract', 'malformed', %s, 1, now(), now())",
                (number, told),
            )
    assert next(each.version for each in migrate(before)) == 14
    with psycopg.connect(before) as connection:
        found = connection.execute(
            "SELECT fingerprint, fields, due_at - last_attempt_at, source_id, customer, document_type, "
            "language FROM assay.dead_letters ORDER BY task_id"
        ).fetchall()
    assert [row[:3] for row in found] == [
        (fingerprint("c", "malformed", errors), list(fields_of(errors)), timedelta(days=7))
        for errors in ERRORS
    ]
    assert [row[3:] for row in found] == [(7, "acme", "mail", "de"), *[(None,) * 4] * (len(ERRORS) - 1)]


async def test_the_finish_writes_all_that_triage_needs(place: Place) -> None:
    number = await place.kill("r", customer="acme", document_type="mail", language="de", correlation_id="c-1",
                              ocr_version="o2")  # fmt: skip
    (row,) = place.store.envelopes(ANY)
    assert row["dead_letter_id"] == number
    assert row["fields"] == ["/items/*/amount"]
    assert row["fingerprint"] == fingerprint(
        "schema_type_error", "malformed", (("/items/0/amount", "float_type"),)
    )
    told = ("source", "partition", "offset", "line", "customer", "document_type", "language",
            "correlation_id", "ocr_version", "pipeline", "version_label", "model")  # fmt: skip
    assert [row[name] for name in told] == [
        "in.jsonl", 0, 0, 1, "acme", "mail", "de", "c-1", "o2", "tickets", "first", "m1",
    ]  # fmt: skip
    assert (row["cost"], row["calls"], row["input_tokens"], row["output_tokens"]) == (COST, 1, 100, 10)
    (keys,) = place.rows("SELECT due_at - last_attempt_at, expires_at FROM assay.dead_letters")
    assert keys == (timedelta(days=7), None)
    place.clean()


async def test_the_idempotency_keys_are_those_that_the_vendor_saw(place: Place) -> None:
    (task,) = await place.line.claim(place.line.record("r"))
    await place.line.finish(refused(task))
    (row,) = place.store.envelopes(ANY)
    assert row["idempotency_keys"] == [idempotency_key(task, 1)]
    (call,) = place.store.page(int(str(row["dead_letter_id"]))).calls
    assert call["idempotency_key"] == idempotency_key(task, 1)


async def test_terms_hold_from_when_they_are_set(place: Place) -> None:
    await place.kill("before")
    place.acts.set_terms("tickets", Terms(3600.0, 86_400.0), actor="ann")
    assert place.acts.terms("tickets") == Terms(3600.0, 86_400.0)
    await place.kill("after")
    assert place.rows(
        "SELECT due_at - last_attempt_at, expires_at - last_attempt_at FROM assay.dead_letters "
        "ORDER BY 1 DESC"
    ) == [(timedelta(days=7), None), (timedelta(hours=1), timedelta(days=1))]
    place.do("UPDATE assay.instance SET clock_shown = clock_shown + interval '2 hours'")
    assert place.found(LetterFilter(overdue=True)) == ["after"]
    place.acts.set_terms("tickets", Terms(), actor="ann")
    await place.kill("later")
    assert place.found(LetterFilter(overdue=True)) == ["after"]
    with pytest.raises(ConfigurationError, match="no pipeline 'other'"):
        place.acts.set_terms("other", Terms(), actor="ann")


async def _many(place: Place) -> None:
    """Records that differ from `plain` in one thing each, named for it."""
    await place.kill("plain", customer="acme", document_type="mail", language="de")
    await place.kill("customer", customer="umbrella", document_type="mail", language="de")
    await place.kill("type", customer="acme", document_type="letter", language="de")
    await place.kill("language", customer="acme", document_type="mail", language="en")
    await place.kill(
        "policy", "provider_refused", REFUSED, customer="acme", document_type="mail", language="de"
    )
    other = Line(place.line.pool, Vault(KEK), "tickets", register(place.url, "tickets", "m2", "second"), 0)
    other.source_id = await other.sources.register(
        kind="file", name="more.jsonl", fingerprint="m", mapping="{}"
    )
    (task,) = await other.claim(other.record("version", customer="acme", document_type="mail", language="de"))
    await other.finish(refused(task))
    place.acts.assign([place.letter("language")], owner="ann", actor="bob")


ALL: Final = ["version", "policy", "language", "type", "customer", "plain"]


@pytest.mark.parametrize(
    ("which", "records"),
    [
        (LetterFilter(), ALL),
        (LetterFilter(pipeline="tickets"), ALL),
        (LetterFilter(version="second"), ["version"]),
        (LetterFilter(pipeline="tickets", version="first"), ALL[1:]),
        (LetterFilter(code="provider_refused"), ["policy"]),
        (LetterFilter(failure_class="policy"), ["policy"]),
        (LetterFilter(kind="malformed"), [each for each in ALL if each != "policy"]),
        (LetterFilter(field="/items/99/amount"), [each for each in ALL if each != "policy"]),
        (LetterFilter(field="/items/*/amount", customer="umbrella"), ["customer"]),
        (LetterFilter(field="/items"), []),
        (LetterFilter(source="more.jsonl"), ["version"]),
        (LetterFilter(source="nowhere.jsonl"), []),
        (LetterFilter(document_type="letter"), ["type"]),
        (LetterFilter(language="en"), ["language"]),
        (LetterFilter(owner="ann"), ["language"]),
        (LetterFilter(states=(LetterState.ASSIGNED,)), ["language"]),
        (LetterFilter(states=(LetterState.OPEN,)), [each for each in ALL if each != "language"]),
        (LetterFilter(states=(LetterState.CLOSED,)), []),
        (LetterFilter(record_id="type"), ["type"]),
        (LetterFilter(fingerprint=fingerprint("provider_refused", None, REFUSED.errors)), ["policy"]),
        (LetterFilter(since=3600.0), ALL),
        (LetterFilter(until=3600.0), []),
        (LetterFilter(overdue=True), []),
    ],
    ids=str,
)
async def test_every_filter_finds_what_it_names(
    place: Place, which: LetterFilter, records: list[str]
) -> None:
    await _many(place)
    assert place.found(which) == records
    assert place.found(which, oldest_first=True) == records[::-1]
    assert place.store.count(which).total == len(records)
    assert sum(int(str(row["count"])) for row in place.store.cohorts(which)) == len(records)


async def test_a_list_goes_on_from_a_key_and_knows_no_strangers(place: Place) -> None:
    await _many(place)
    for oldest in (False, True):
        seen: list[str] = []
        after: int | None = None
        while page := place.store.envelopes(LetterFilter(), after=after, most=2, oldest_first=oldest):
            seen += [str(row["record_id"]) for row in page]
            after = int(str(page[-1]["dead_letter_id"]))
        assert seen == (ALL[::-1] if oldest else ALL)
    exported: list[Any] = []
    assert place.store.export(LetterFilter(), exported.append) == len(ALL)
    assert [row["record_id"] for row in exported] == ALL[::-1]
    for stranger in (LetterFilter(pipeline="nobodys"), LetterFilter(version="abcdef9")):
        with pytest.raises(ConfigurationError):
            place.store.envelopes(stranger)
    with pytest.raises(ConfigurationError, match="There is no dead letter 999;"):
        place.store.page(999)


async def test_cohorts_fold_items_and_take_their_share_of_finished_tasks(place: Place) -> None:
    for number in range(3):
        await place.kill(f"acme {number}", evidence=at_item(number), customer="acme")
    await place.kill("umbrella", customer="umbrella")
    await place.line.accept(*(place.line.record(f"fine {n}", customer="acme") for n in range(9)))
    big, small = place.store.cohorts(LetterFilter())
    assert (big["customer"], big["count"], big["finished"], big["share"]) == ("acme", 3, 12, 0.25)
    assert (small["customer"], small["count"], small["finished"], small["share"]) == ("umbrella", 1, 1, 1.0)
    assert (big["field"], big["code"]) == ("/items/*/amount", "schema_type_error")
    assert big["sample"] == place.letter("acme 0")
    (one,) = place.store.cohorts(LetterFilter(), ("code",))
    assert (one["count"], one["customer"], one["finished"]) == (4, None, 13)
    place.acts.close([place.letter("acme 0")], actor="ann", reason="a test")
    (whole,) = place.store.cohorts(ANY, ("fingerprint",))
    assert (whole["count"], whole["waiting"]) == (4, 3)
    assert "share" not in place.store.cohorts(ANY, ("code",), shares=False)[0]


def _ledger(place: Place, where: str) -> tuple[Any, ...]:
    (found,) = place.rows(
        "SELECT coalesce(sum(cost), 0), coalesce(sum(input_tokens), 0)::int8, "
        f"coalesce(sum(output_tokens), 0)::int8, count(*) FROM assay.calls WHERE {where}"
    )
    return found


def _sums(rows: list[dict[str, object]]) -> tuple[Any, ...]:
    cost = sum((Decimal(str(row["cost"])) for row in rows), Decimal(0))
    return (
        cost,
        *(sum(int(str(row[name])) for row in rows) for name in ("input_tokens", "output_tokens", "calls")),
    )


async def test_costs_are_the_ledgers(place: Place) -> None:
    await _many(place)
    await place.line.accept(place.line.record("fine"))
    (task,) = await place.line.claim(place.line.record("parked"))
    timed_out = CallRecord(
        1, CallOutcome.FAILED, code="provider_timeout", cost=Decimal("0.5"), input_tokens=7
    )
    await place.line.finish(
        park(task, 3600.0, "provider_timeout", Passes(calls=(timed_out,)), uses_attempt=True)
    )
    costs = place.store.costs(ANY)
    assert _sums(costs) == _ledger(place, "outcome <> 'accepted'")
    assert {(row["version_label"], row["code"], row["calls"]) for row in costs} == {
        ("first", "schema_type_error", 4), ("first", "provider_refused", 1), ("first", "provider_timeout", 1),
        ("second", "schema_type_error", 1),
    }  # fmt: skip
    second = place.store.costs(LetterFilter(version="second"))
    assert _sums(second) == _ledger(place, "outcome <> 'accepted' AND version_id = 2")
    dead = "task_id IN (SELECT task_id FROM assay.dead_letters)"
    assert (
        _sums(place.store.cohorts(ANY)) == _sums(place.store.cohorts(ANY, ("state",))) == _ledger(place, dead)
    )


async def test_a_call_that_is_reported_late_is_burnt_once(place: Place) -> None:
    (lost,) = await place.line.claim(place.line.record("r"), lease_seconds=0.0)
    (taken,) = await place.line.claims().claim_waiting(1)
    await place.line.finish(refused(taken))
    assert _sums(place.store.cohorts(ANY)) == _ledger(place, "true")
    await place.line.finish(refused(lost, cost=Decimal("0.7")))
    assert place.rows("SELECT outcome, cost FROM assay.calls ORDER BY call_id DESC LIMIT 1") == [
        ("lease_lost", Decimal("0.7"))
    ]
    assert _sums(place.store.cohorts(ANY)) == _ledger(place, "true")
    place.clean()


async def test_two_dead_letters_of_one_task_share_its_calls_without_counting_any_twice(place: Place) -> None:
    number = await place.kill("r")
    place.acts.close([number], actor="ann", reason="a test")
    # Reopened, withdrawn, and dead again after another call: by hand, as no store makes these moves yet.
    for change in ("state = 'review_pending', review_reason = 'x', last_move = 'reopen'",
                   "state = 'quarantined', last_move = 'withdraw'"):  # fmt: skip
        place.do(
            f"UPDATE assay.annotation_tasks SET {change}, moves = moves + 1, "
            "last_moved_at = assay.assay_now(), last_reason = 'x'"
        )
    place.do(
        "INSERT INTO assay.calls (task_id, attempt_id, version_id, pass_number, outcome, billed, cost, "
        "recorded_at) SELECT task_id, %s, version_id, 1, 'rejected', true, 0.2, assay.assay_now() "
        "FROM assay.annotation_tasks", uuid4(),
    )  # fmt: skip
    place.do(
        "INSERT INTO assay.dead_letters (task_id, attempt_id, version_id, error_code, failure_class, errors, "
        "fields, fingerprint, attempts, first_attempt_at, last_attempt_at) "
        "SELECT task_id, attempt_id, version_id, error_code, failure_class, errors, fields, fingerprint, 1, "
        "first_attempt_at, assay.assay_now() FROM assay.dead_letters"
    )
    costs = [row["cost"] for row in place.store.envelopes(ANY, oldest_first=True)]
    assert costs == [COST, Decimal("0.2")]
    assert _sums(place.store.cohorts(ANY)) == _ledger(place, "true")


async def test_confidence_is_kept_where_the_finish_knows_it(place: Place) -> None:
    (task,) = await place.line.claim(place.line.record("r"))
    label = place.line.accepted(task).label
    await place.line.finish(replace(refused(task), label=label, accept_at=Decimal("0.85")))
    (row,) = place.store.envelopes(ANY)
    assert (row["confidence"], row["accept_at"]) == (Decimal("0.9"), Decimal("0.85"))


async def test_exhausted_ones_name_what_exhausted_them(place: Place) -> None:
    await place.kill("r", "attempts_exhausted", EXHAUSTED)
    (row,) = place.store.cohorts(LetterFilter(), ("code", "class", "field"))
    assert (row["code"], row["class"], row["field"]) == ("attempts_exhausted", "transient", "")
