"""Whatever comes, in whatever order, and whatever crashes: the newest revision, and each effect once."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest
from consumer_events import Db, apply, make_tables, newest, notes, results, told, twice
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from assay.consumer import ConsumedEvent, Inbox

Accept = Callable[[Db, ConsumedEvent], bool]

EVENTS = [
    *(told(name, revision, epoch=epoch) for name in "ab" for revision in (1, 2, 3) for epoch in (0, 1)),
    *(told(name, revision, "superseded", number=n) for name in "ab" for revision in (1, 2) for n in (1, 2)),
]


class Crash(Exception):
    """The consumer's process is gone."""


@pytest.fixture
def db(db_url: str) -> Iterator[Db]:
    with psycopg.connect(db_url, autocommit=True) as connection:
        make_tables(connection)
        yield connection


def machine(db: Db, accept: Accept) -> type[RuleBasedStateMachine]:
    """A consumer that decides by `accept`, and everything that happens to it."""

    class Consumer(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            db.execute("TRUNCATE consumed, effects, assay_inbox, assay_inbox_notes")
            self.committed: list[ConsumedEvent] = []

        def _consume(self, events: list[ConsumedEvent], *, crash: bool) -> None:
            try:
                with db.transaction():
                    for event in events:
                        if accept(db, event):
                            apply(db, event)
                    if crash:
                        raise Crash
            except Crash:
                return
            self.committed += events

        @rule(event=st.sampled_from(EVENTS))
        def deliver(self, event: ConsumedEvent) -> None:
            self._consume([event], crash=False)

        @rule(events=st.lists(st.sampled_from(EVENTS), min_size=1, max_size=4), crash=st.booleans())
        def deliver_several_in_one_transaction(self, events: list[ConsumedEvent], crash: bool) -> None:
            self._consume(events, crash=crash)

        @rule(event=st.sampled_from(EVENTS))
        def crash_before_the_commit(self, event: ConsumedEvent) -> None:
            self._consume([event], crash=True)

        @rule()
        def start_again_from_the_last_committed_offset(self) -> None:
            for event in self.committed[-3:]:
                self._consume([event], crash=False)

        @rule()
        def prune(self) -> None:
            with db.transaction():
                Inbox().prune(db)

        @invariant()
        def the_newest_revision_is_what_there_is(self) -> None:
            assert results(db) == newest(self.committed)

        @invariant()
        def each_effect_is_there_once(self) -> None:
            assert twice(db) == 0
            assert notes(db) == {event.event_id for event in self.committed if event.is_note}

    return Consumer


def run(db: Db, accept: Accept) -> None:
    run_state_machine_as_test(
        machine(db, accept),
        settings=settings(
            max_examples=100, stateful_step_count=25, report_multiple_bugs=False, phases=[Phase.generate]
        ),
    )


def test_the_inbox_keeps_what_it_promises(db: Db) -> None:
    run(db, Inbox().accept)


def test_without_it_effects_double(db: Db) -> None:
    with pytest.raises(AssertionError):
        run(db, lambda _, event: True)


def test_event_ids_alone_let_an_older_revision_win(db: Db) -> None:
    def by_id(connection: Db, event: ConsumedEvent) -> bool:
        row = connection.execute("SELECT FROM effects WHERE event_id = %s", (event.event_id,)).fetchone()
        return row is None

    with pytest.raises(AssertionError):
        run(db, by_id)
