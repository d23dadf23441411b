"""What people do with dead letters: every act is kept, and fenced against replays and newer records."""

from __future__ import annotations

from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from letters import ANY, REFUSED, Place, at_item, placed, refused
from waiting import until_blocked

from assay.adapters.postgres.dead_letter_acts import Acted
from assay.adapters.postgres.explain_store import ExplainStore
from assay.adapters.postgres.status_store import StatusStore
from assay.domain.dead_letters import LetterFilter, LetterState
from assay.domain.failures import ConfigurationError

REPLAY = (
    "UPDATE assay.dead_letters SET state = 'replaying', replay_count = replay_count + 1",
    "UPDATE assay.annotation_tasks SET state = 'processing', attempt_id = gen_random_uuid(), "
    "lease_until = assay.assay_now() + interval '90 seconds', moves = moves + 1, attempts = attempts + 1, "
    "last_move = 'replay', last_moved_at = assay.assay_now(), last_reason = 'prompt'",
)
SUPERSEDE = (
    "UPDATE assay.annotation_tasks SET state = 'superseded', moves = moves + 1, last_move = 'supersede', "
    "last_moved_at = assay.assay_now(), last_reason = 'newer_input_version'",
    "UPDATE assay.dead_letters SET state = 'resolved', resolved_by = 'newer_input_version'",
)


@pytest.fixture
async def place(db_url: str) -> AsyncIterator[Place]:
    async with placed(db_url) as made:
        yield made


async def test_one_is_taken_on_handed_over_and_given_back(place: Place) -> None:
    number = await place.kill("r")
    assert place.acts.assign([number], owner="ann", actor="bob") == Acted(changed=1)
    assert place.acts.assign([number], owner="ann", actor="bob") == Acted(as_before=1)
    assert place.acts.assign([number], owner="eve", actor="ann", reason="on holiday") == Acted(changed=1)
    (row,) = place.store.envelopes(LetterFilter(states=(LetterState.ASSIGNED,)))
    assert (row["state"], row["owner"]) == ("assigned", "eve")
    assert place.acts.unassign([number], actor="eve") == Acted(changed=1)
    assert place.acts.unassign([number], actor="eve") == Acted(as_before=1)
    told = [(act["kind"], act["actor"], act["owner"], act["reason"]) for act in place.store.page(number).acts]
    assert told == [
        ("assigned", "bob", "ann", None), ("assigned", "ann", "eve", "on holiday"),
        ("unassigned", "eve", None, None),
    ]  # fmt: skip
    place.clean()


async def test_a_closed_one_rejects_its_task_and_stays_so(place: Place) -> None:
    number = await place.kill("r")
    place.acts.assign([number], owner="ann", actor="ann")
    assert place.acts.close([number, number], actor="ann", reason="sent by mistake") == Acted(changed=1)
    assert place.acts.close([number], actor="bob", reason="again") == Acted(as_before=1)
    assert place.rows(
        "SELECT state::text, last_move::text, last_actor, last_reason FROM assay.annotation_tasks"
    ) == [("rejected", "close", "ann", "sent by mistake")]
    assert place.rows(
        "SELECT from_state::text, to_state::text, actor, reason FROM assay.task_history WHERE move = 'close'"
    ) == [("quarantined", "rejected", "ann", "sent by mistake")]
    page = place.store.page(number)
    assert (page.envelope["state"], page.acts[-1]["reason"]) == ("closed", "sent by mistake")
    assert place.acts.unassign([number], actor="bob") == Acted(as_before=1)
    place.clean()


async def test_a_closing_is_told_downstream(place: Place) -> None:
    numbers = [await place.kill(f"r{n}") for n in range(2)]
    assert place.acts.close(numbers, actor="ann", reason="free text of ann") == Acted(changed=2)
    assert place.acts.close(numbers, actor="ann", reason="free text of ann") == Acted(as_before=2)
    assert place.rows(
        "SELECT aggregate_id, kind, revision, payload ->> 'state', payload ->> 'error_code' "
        "FROM assay.outbox_events ORDER BY aggregate_id, revision"
    ) == [
        (f"tickets/r{n}", kind, revision, state, "schema_type_error")
        for n in range(2)
        for kind, revision, state in (("quarantined", 1, "quarantined"), ("rejected", 2, "rejected"))
    ]  # fmt: skip
    assert place.rows("SELECT count(*) FROM assay.outbox_events WHERE payload::text LIKE '%%ann%%'") == [(0,)]
    place.clean()


async def test_many_are_acted_on_page_by_page_up_to_where_they_were_counted(place: Place) -> None:
    tasks = await place.line.claim(*(place.line.record(f"r{n}") for n in range(450)))
    await place.line.finish(*map(refused, tasks))
    await place.kill("other", "provider_refused", REFUSED)
    which = LetterFilter(code="schema_type_error")
    counted = place.store.count(which)
    assert (counted.total, counted.by_state) == (450, {"open": 450})
    await place.kill("later")
    assert place.acts.assign_all(which, up_to=counted.last, owner="ann", actor="ann") == Acted(changed=450)
    done = place.acts.close_all(which, up_to=counted.last, actor="ann", reason="an old export")
    assert done == Acted(changed=450)
    assert place.acts.close_all(which, up_to=counted.last, actor="ann", reason="again") == Acted()
    assert place.found(LetterFilter()) == ["later", "other"]
    place.clean()


async def test_numbers_that_are_none_change_nothing(place: Place) -> None:
    number = await place.kill("r")
    with pytest.raises(ConfigurationError, match="There is no dead letter 77, 78;"):
        place.acts.close([number, 77, 78], actor="ann", reason="x")
    assert place.found(LetterFilter()) == ["r"]


async def test_what_is_replayed_is_left_alone(place: Place) -> None:
    number = await place.kill("r")
    for statement in REPLAY:
        place.do(statement)
    assert place.acts.close([number], actor="ann", reason="x") == Acted(replaying=1)
    assert place.acts.assign([number], owner="ann", actor="ann") == Acted(replaying=1)
    assert place.store.count(LetterFilter()).by_state == {"replaying": 1}


@pytest.mark.parametrize(
    ("statements", "came_to"), [(REPLAY, Acted(replaying=1)), (SUPERSEDE, Acted(as_before=1))]
)
async def test_of_a_closing_and_another_move_at_once_one_wins(
    place: Place, statements: tuple[str, ...], came_to: Acted
) -> None:
    """The other move holds the task; the closing waits for it, then finds nothing left to close."""
    number = await place.kill("r")
    with (
        ThreadPoolExecutor(1) as threads,
        psycopg.connect(place.url) as connection,
        psycopg.connect(place.url, autocommit=True) as watcher,
    ):
        # As replays and supersedes do: the task first, then its dead letter.
        connection.execute("SELECT FROM assay.annotation_tasks FOR UPDATE")
        closing = threads.submit(place.acts.close, [number], actor="ann", reason="x")
        until_blocked(watcher)
        for statement in statements:
            connection.execute(statement.encode())
        connection.commit()
        assert closing.result(30) == came_to
    assert place.rows("SELECT count(*) FROM assay.dead_letter_acts") == [(0,)]


async def test_two_who_close_at_once_leave_one_act(place: Place) -> None:
    numbers = [await place.kill(f"r{n}") for n in range(8)]
    with ThreadPoolExecutor(4) as threads:
        done = list(
            threads.map(lambda who: place.acts.close(numbers, actor=who, reason="x"), ("a", "b", "c", "d"))
        )
    assert sum(each.changed for each in done) == 8
    assert place.rows("SELECT count(*) FROM assay.dead_letter_acts") == [(8,)]
    place.clean()


async def test_a_replay_that_fails_leaves_the_same_dead_letter_with_new_evidence(place: Place) -> None:
    number = await place.kill("r")
    other = await place.kill("owned")
    place.acts.assign([other], owner="ann", actor="ann")
    for statement in REPLAY:
        place.do(statement)
    place.do("INSERT INTO assay.parked_tasks (task_id, version_id, due_at) SELECT task_id, version_id, "
             "assay.assay_now() FROM assay.annotation_tasks")  # fmt: skip
    place.do("UPDATE assay.annotation_tasks SET lease_until = assay.assay_now() - interval '1 second'")
    tasks = await place.line.claims().claim_waiting(2)
    await place.line.finish(*(refused(task, "schema_extra_field", at_item(1)) for task in tasks))
    rows = place.store.envelopes(ANY, oldest_first=True)
    assert [row["dead_letter_id"] for row in rows] == [number, other]
    assert [(row["state"], row["owner"], row["error_code"], row["replay_count"]) for row in rows] == [
        ("open", None, "schema_extra_field", 1), ("assigned", "ann", "schema_extra_field", 1),
    ]  # fmt: skip
    place.clean()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE assay.dead_letters SET error_code = 'x'",
        "UPDATE assay.dead_letters SET errors = '[]'",
        "UPDATE assay.dead_letters SET fingerprint = repeat('0', 16)",
        "UPDATE assay.dead_letters SET last_attempt_at = last_attempt_at + interval '1 day'",
        "UPDATE assay.dead_letters SET replay_count = -1",
        "UPDATE assay.dead_letters SET owner = 'ann', state = 'assigned'",
        "DELETE FROM assay.dead_letters",
        "UPDATE assay.dead_letter_acts SET reason = 'another'",
        "DELETE FROM assay.dead_letter_acts",
        "UPDATE assay.dead_letters SET state = 'closed'",
        "UPDATE assay.dead_letters SET state = 'resolved'",
        "UPDATE assay.dead_letters SET state = 'assigned'",
        "UPDATE assay.dead_letters SET state = 'open', owner = NULL WHERE state = 'closed'",
        "UPDATE assay.dead_letters SET state = 'replaying' WHERE state = 'closed'",
        "INSERT INTO assay.dead_letter_acts (dead_letter_id, kind, at, actor) SELECT dead_letter_id, "
        "'closed', assay.assay_now(), 'x' FROM assay.dead_letters WHERE state = 'open'",
    ],
)
async def test_the_database_refuses_what_is_no_act(place: Place, statement: str) -> None:
    await place.kill("r")
    place.acts.close([await place.kill("closed")], actor="ann", reason="x")
    with pytest.raises((psycopg.errors.IntegrityError, psycopg.DatabaseError)) as refusal:
        place.do(statement)
    assert refusal.value.sqlstate in {"AS001", "AS002", "23514"}
    place.clean()


async def test_status_counts_what_nobody_has_taken_on(place: Place) -> None:
    numbers = [await place.kill(f"r{n}") for n in range(5)]
    place.acts.assign(numbers[:2], owner="ann", actor="ann")
    place.acts.close(numbers[2:3], actor="ann", reason="x")
    (version,) = StatusStore(place.url).read().versions
    assert [(row["reason"], row["count"]) for row in version.dead_letters] == [("schema_type_error", 2)]


async def test_facts_tell_whether_a_replay_is_safe(place: Place) -> None:
    number = await place.kill("r", subject_id="person")
    known = place.store.page(number).facts
    assert (known["readable"], known["newer_input"], known["newer_version"]) == (True, None, None)
    await place.line.claim(place.line.record("r", 2, subject_id="person"))
    assert place.store.page(number).facts["newer_input"] == 2
    place.do("DELETE FROM assay_vault.subject_keys")
    assert place.store.page(number).facts["readable"] is False
    (letter,) = ExplainStore(place.url).explain("r").annotations[0].dead_letters
    assert letter["dead_letter_id"] == number
    assert letter["facts"] == place.store.page(number).facts
