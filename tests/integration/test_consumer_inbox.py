"""The inbox under concurrency, its answers one by one, and what it asks of its caller."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest
from consumer_events import Db, apply, make_tables, newest, notes, results, told, twice
from waiting import deadlocks, until_blocked

from assay.consumer import AsyncInbox, ConsumedEvent, Inbox

INBOX = Inbox()
LONG_AGO = timedelta(days=30)


@pytest.fixture
def db(db_url: str) -> Iterator[Db]:
    with psycopg.connect(db_url, autocommit=True) as connection:
        make_tables(connection)
        yield connection


def accept(db: Db, event: ConsumedEvent, inbox: Inbox = INBOX) -> bool:
    with db.transaction():
        return inbox.accept(db, event)


def grow_old(db: Db) -> None:
    db.execute("UPDATE assay_inbox_notes SET accepted_at = accepted_at - %s::interval", (LONG_AGO,))


def test_once_and_only_what_is_newer(db: Db) -> None:
    assert accept(db, told("a", 2))
    assert not accept(db, told("a", 2))
    assert not accept(db, told("a", 1))
    assert accept(db, told("a", 3, "quarantined"))
    assert accept(db, told("b", 1))


def test_a_restored_database_counts_again_from_an_earlier_revision(db: Db) -> None:
    assert accept(db, told("a", 5))
    assert accept(db, told("a", 3, epoch=1))
    assert not accept(db, told("a", 6))
    assert accept(db, told("a", 4, epoch=1))


def test_an_event_that_is_sent_again_under_a_later_epoch_is_the_same_event(db: Db) -> None:
    first, again = told("a", 5), told("a", 5, epoch=1)
    assert accept(db, first)
    sent_again = ConsumedEvent(
        first.event_id, again.kind, 1, "result", "a", again.revision, again.epoch, again.occurred_at, {}
    )
    assert not accept(db, sent_again)


def test_a_note_neither_hides_nor_is_hidden_by_the_event_of_its_revision(db: Db) -> None:
    first, second = (told("a", 2, "superseded", number=n) for n in (1, 2))
    assert accept(db, first)
    assert accept(db, told("a", 2))
    assert accept(db, second)
    assert not accept(db, first)
    assert not accept(db, second)
    assert accept(db, told("a", 1, "superseded"))


def test_a_pruned_note_is_still_refused(db: Db) -> None:
    old, late, new = (told("a", revision, "superseded") for revision in (2, 1, 3))
    assert accept(db, old)
    grow_old(db)
    assert accept(db, new)
    with db.transaction():
        assert INBOX.prune(db) == 1
        assert INBOX.prune(db) == 0
    assert not accept(db, old)
    assert not accept(db, new)
    assert not accept(db, late)
    assert accept(db, told("a", 4, "superseded"))
    assert accept(db, told("a", 1))


def test_inboxes_are_apart(db: Db) -> None:
    other = Inbox("other")
    for event in (told("a", 1), told("a", 1, "superseded")):
        assert accept(db, event)
        assert accept(db, event, other)
        assert not accept(db, event, other)
    grow_old(db)
    with db.transaction():
        assert other.prune(db) == 1
    assert db.execute("SELECT inbox FROM assay_inbox_notes").fetchall() == [("assay",)]


def test_outside_of_a_transaction_it_is_a_mistake(db: Db, db_url: str) -> None:
    with pytest.raises(RuntimeError, match="inside the transaction"):
        INBOX.accept(db, told("a", 1))
    with pytest.raises(RuntimeError, match="inside the transaction"):
        INBOX.prune(db)
    with psycopg.connect(db_url) as begins_one_itself:
        assert INBOX.accept(begins_one_itself, told("a", 1))
        begins_one_itself.rollback()
    assert accept(db, told("a", 1))


@pytest.mark.parametrize("kind", ["completed", "superseded"])
@pytest.mark.parametrize("commits", [True, False])
def test_a_second_consumer_waits_for_the_first_and_then_knows(
    db: Db, db_url: str, kind: str, commits: bool
) -> None:
    event, answers = told("a", 1, kind), []

    def second() -> None:
        with psycopg.connect(db_url) as other:
            answers.append(INBOX.accept(other, event))

    with psycopg.connect(db_url) as first:
        assert INBOX.accept(first, event)
        thread = threading.Thread(target=second)
        thread.start()
        until_blocked(db)
        if commits:
            first.commit()
        else:
            first.rollback()
        thread.join(30)
    assert answers == [not commits]


def test_many_consumers_of_one_stream(db: Db, db_url: str) -> None:
    names = [f"r{number}" for number in range(12)]
    events = [told(name, revision) for name in names for revision in range(1, 9)]
    events += [told(name, 4, "superseded", number=n) for name in names for n in range(3)]
    failures: list[BaseException] = []

    def consume(seed: int) -> None:
        chance = random.Random(seed)
        mine = chance.sample(events, len(events))
        try:
            with psycopg.connect(db_url, autocommit=True) as own:
                while mine:
                    batch, mine = mine[:7], mine[7:]
                    with own.transaction(force_rollback=chance.random() < 0.2) as transaction:
                        for event in INBOX.accept_each(own, batch):
                            apply(own, event)
                    if transaction.force_rollback:
                        mine += batch
        except (psycopg.Error, RuntimeError) as failure:
            failures.append(failure)

    threads = [threading.Thread(target=consume, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert results(db) == newest(events)
    assert twice(db) == 0
    assert notes(db) == {event.event_id for event in events if event.is_note}
    assert deadlocks(db) == 0


def test_several_at_once_come_back_in_the_order_given(db: Db) -> None:
    b1, a2, a1, b2 = told("b", 1), told("a", 2), told("a", 1), told("b", 2)
    with db.transaction():
        assert INBOX.accept_each(db, [b1, a2, a1, b1, b2]) == [b1, a2, b2]


def test_the_tables_are_made_by_any_number_at_once(db: Db, db_url: str) -> None:
    db.execute("DROP TABLE assay_inbox, assay_inbox_notes")
    failures: list[BaseException] = []
    ready = threading.Barrier(6)

    def make() -> None:
        try:
            with psycopg.connect(db_url) as own:
                ready.wait(30)
                Inbox.create_table(own)
        except (psycopg.Error, RuntimeError) as failure:
            failures.append(failure)

    threads = [threading.Thread(target=make) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert failures == []
    assert accept(db, told("a", 1))


async def test_the_same_for_asyncio(db: Db, db_url: str) -> None:
    inbox = AsyncInbox()
    async with await psycopg.AsyncConnection.connect(db_url, autocommit=True) as own:
        await AsyncInbox.create_table(own)
        with pytest.raises(RuntimeError, match="inside the transaction"):
            await inbox.accept(own, told("a", 1))
        async with own.transaction():
            assert await inbox.accept(own, told("a", 2))
            assert not await inbox.accept(own, told("a", 1))
            assert await inbox.accept(own, told("a", 2, "superseded"))
            assert await inbox.accept_each(own, [told("b", 2), told("b", 1), told("a", 3)]) == [
                told("b", 2), told("a", 3),
            ]  # fmt: skip
        grow_old(db)
        async with own.transaction():
            assert await inbox.prune(own) == 1
    assert not accept(db, told("a", 2))
