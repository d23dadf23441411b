"""What a replay lets out and what it does not: what bars an item, what overtakes it, what is kept for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

import psycopg
import pytest
from audit_situations import KEK
from audit_situations_replays import Replays, replays_of

from assay.adapters.postgres.audit_store import AuditStore
from assay.adapters.postgres.dead_letter_acts import DeadLetterActs
from assay.adapters.postgres.session import make_pool
from assay.adapters.vault import Vault
from assay.domain.replays import MOST_REPLAYS, Counts, FixKind, Step
from assay.domain.work import FinishOutcome

# What may become of a dead letter between its plan and its run. Erasure has no store yet, and the evidence is
# guarded: triggers are off while these run.
_TASK: Final = "(SELECT task_id FROM assay.annotation_tasks WHERE record_id = 'd')"
CHANGES: Final = {
    "erased": (
        "UPDATE assay.annotation_tasks SET state = 'erased', moves = moves + 1, last_move = 'erase' "
        "WHERE record_id = 'd'"
    ),
    "retention_over": (
        f"UPDATE assay.dead_letters SET expires_at = now() - interval '1 second' WHERE task_id = {_TASK}"
    ),
    "replay_limit": f"UPDATE assay.dead_letters SET replay_count = {MOST_REPLAYS} WHERE task_id = {_TASK}",
    "text_gone": (
        "DELETE FROM assay_vault.texts x USING assay.annotation_tasks t "
        "WHERE t.record_id = 'd' AND x.text_ref = t.encrypted_text_ref"
    ),
    "response_not_kept": f"UPDATE assay_vault.responses SET expires_at = now() WHERE task_id = {_TASK}",
}


@pytest.fixture
async def replays(db_url: str) -> AsyncIterator[Replays]:
    pool = make_pool(db_url, size=2)
    await pool.open()
    try:
        yield await replays_of(db_url, pool)
    finally:
        await pool.close()


def rows(replays: Replays, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(replays.url) as connection:
        return connection.execute(query.encode()).fetchall()


def change(replays: Replays, statement: str) -> None:
    with psycopg.connect(replays.url) as connection:
        connection.execute("SET session_replication_role = replica")
        assert connection.execute(statement.encode()).rowcount == 1


def broken(replays: Replays) -> tuple[str, ...]:
    return tuple(each.invariant for each in AuditStore(replays.url, Vault(KEK)).audit().broken)


def barred(replays: Replays, replay: int) -> dict[object, object]:
    return {row["reason"]: row["items"] for row in replays.store.barred(replay)}


@pytest.mark.parametrize("reason", CHANGES)
async def test_what_bars_a_dead_letter_bars_it_at_the_plan(replays: Replays, reason: str) -> None:
    await replays.refuse("d", "other")
    change(replays, CHANGES[reason])
    replay = replays.plan(FixKind.NEW_SCHEMA, newer=True)
    assert barred(replays, replay) == {reason: 1}
    assert replays.store.one(replay)["waiting"] == 1
    await replays.run(replay, set(), newer=True)
    counts = replays.store.one(replay)
    assert (counts["succeeded"], counts["barred"], counts["state"]) == (1, 1, "finished")


@pytest.mark.parametrize("reason", CHANGES)
async def test_what_has_come_to_bar_it_since_keeps_it_from_being_let_out(
    replays: Replays, reason: str
) -> None:
    await replays.refuse("d", "other")
    replay = replays.plan(FixKind.NEW_SCHEMA, newer=True)
    assert barred(replays, replay) == {}
    change(replays, CHANGES[reason])
    await replays.run(replay, set(), newer=True)
    assert barred(replays, replay) == {reason: 1}
    counts = replays.store.one(replay)
    assert (counts["succeeded"], counts["barred"], counts["state"]) == (1, 1, "finished")
    # Nothing of it was read or tried again.
    assert rows(
        replays, "SELECT count(*) FROM assay.annotation_tasks WHERE record_id = 'd' AND replay_id > 0"
    ) == [(0,)]


async def test_a_newer_version_of_the_record_bars_the_older_one(replays: Replays) -> None:
    await replays.refuse("d", "e")
    # It has come in and is at work: its result is not known yet.
    (newer,) = await replays.old.claim(replays.old.record("d", 2))
    replay = replays.plan(FixKind.APPROVAL)
    assert barred(replays, replay) == {"newer_input_version": 1}
    await replays.old.finish(replays.old.accepted(newer))
    # The other one gets a newer version after the plan.
    await replays.old.accept(replays.old.record("e", 2))
    await replays.run(replay, set())
    assert barred(replays, replay) == {"newer_input_version": 2}
    assert replays.store.one(replay)["state"] == "finished"
    assert broken(replays) == ()


async def test_a_dead_letter_that_was_closed_since_is_left_closed(replays: Replays) -> None:
    await replays.refuse("d")
    replay = replays.plan(FixKind.APPROVAL)
    ((letter,),) = rows(replays, "SELECT dead_letter_id FROM assay.dead_letters")
    DeadLetterActs(replays.url).close([letter], actor="ann", reason="a test message")
    await replays.run(replay, set())
    assert barred(replays, replay) == {"settled_before": 1}
    assert rows(replays, "SELECT state FROM assay.dead_letters") == [("closed",)]
    assert broken(replays) == ()


@pytest.mark.parametrize("newer", [False, True])
async def test_a_newer_version_of_the_record_overtakes_what_is_out(replays: Replays, *, newer: bool) -> None:
    """What waits to be claimed gives way to it, and the replay ends all the same."""
    await replays.refuse("d", "other")
    ids = [number for (number,) in rows(replays, "SELECT dead_letter_id FROM assay.dead_letters d "
           "JOIN assay.annotation_tasks t USING (task_id) WHERE t.record_id = 'd'")]  # fmt: skip
    replay = replays.plan(FixKind.NEW_SCHEMA if newer else FixKind.APPROVAL, ids, newer=newer)
    assert (await replays.page(replay, newer=newer))[0] is Step.RELEASE
    line = replays.new if newer else replays.old
    await line.accept(replays.old.record("d", 2))
    assert broken(replays) == ()
    assert await replays.page(replay, newer=newer) == (Step.FINISH, Counts(overtaken=1))
    (item,) = rows(replays, "SELECT state, reason FROM assay.replay_items")
    assert item == ("overtaken", "superseded")
    assert rows(
        replays,
        "SELECT d.state, d.resolved_by FROM assay.dead_letters d "
        "JOIN assay.annotation_tasks t USING (task_id) WHERE t.record_id = 'd'",
    ) == [("resolved", "newer_input_version")]
    assert broken(replays) == ()


@pytest.mark.parametrize("newer", [False, True])
@pytest.mark.parametrize("again", [False, True])
async def test_a_newer_version_overtakes_what_is_being_worked_on(
    replays: Replays, *, newer: bool, again: bool
) -> None:
    """A finish that comes after it: whatever it brings, item, dead letter and replay agree on the end."""
    await replays.refuse("d")
    replay = replays.plan(FixKind.NEW_SCHEMA if newer else FixKind.APPROVAL, newer=newer)
    await replays.page(replay, newer=newer)
    line = replays.new if newer else replays.old
    (task,) = await line.claims().claim_waiting(1)
    await line.accept(replays.old.record("d", 2))
    assert broken(replays) == ()
    late = replays.refused(task) if again else line.accepted(task)
    assert await line.finish(late) == [FinishOutcome.DONE]
    assert broken(replays) == ()
    step, counts = await replays.page(replay, newer=newer)
    assert (step, counts.released) == (Step.FINISH, 0)
    assert counts.failed == again
    open_letters = "SELECT count(*) FROM assay.dead_letters WHERE state IN ('open', 'assigned', 'replaying')"
    assert rows(replays, open_letters) == [(0,)]
    assert broken(replays) == ()


async def test_expired_responses_are_deleted_and_what_is_out_is_not(replays: Replays) -> None:
    await replays.refuse("expired", "kept", "out")
    ids = [number for (number,) in rows(replays, "SELECT dead_letter_id FROM assay.dead_letters d "
           "JOIN assay.annotation_tasks t USING (task_id) WHERE t.record_id = 'out'")]  # fmt: skip
    replay = replays.plan(FixKind.NEW_SCHEMA, ids, newer=True)
    await replays.page(replay, newer=True)
    with psycopg.connect(replays.url) as connection:
        connection.execute(
            "UPDATE assay_vault.responses x SET expires_at = now() - interval '1 hour' "
            "FROM assay.annotation_tasks t WHERE t.task_id = x.task_id AND t.record_id <> 'kept'"
        )
    left = (
        "SELECT t.record_id FROM assay_vault.responses x JOIN assay.annotation_tasks t USING (task_id) "
        "ORDER BY 1"
    )
    await replays.old.claims().tidy()
    assert rows(replays, left) == [("kept",), ("out",)]
    (task,) = await replays.new.claims().claim_waiting(1)
    assert task.kept is not None
    assert task.kept.content == b"not json"
    await replays.new.finish(replays.new.accepted(task))
    await replays.new.claims().tidy()
    assert rows(replays, left) == [("kept",)]
    assert broken(replays) == ()
