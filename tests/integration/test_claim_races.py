"""Claims that meet: overlapping batches, opposite orders, replays, duplicates, two kinds of take-over."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Final
from uuid import uuid4

import psycopg
import pytest
from finishes import accepted, parked
from psycopg import sql
from sql_variants import AnyContentClaims, ReadOnceClaims, UnorderedClaims, one_statement_claim
from stores import Bench, Station, open_bench, race, register, stations
from waiting import deadlocks, until_blocked

from assay.adapters.postgres.claim_store import ClaimStore
from assay.domain.work import ClaimedTask, Claims, Offer, Verdict

WORKERS = 8
ROUNDS = 100  # of eight claims and eight finishes
KEYS = 24  # in play in one round
TAKE_OVERS = 120
MEETINGS = 300


@pytest.fixture
def bench(db_url: str) -> Iterator[Bench]:
    with open_bench(db_url) as opened:
        yield opened


async def _claim(station: Station, offers: list[Offer]) -> Claims:
    return await station.claims.claim(station.bench.source_id, offers)


def _overlapping(bench: Bench, round_number: int, draw: random.Random) -> list[Offer]:
    """A batch in random order out of this round's keys, which overlap the last round's; some stand twice."""
    first = round_number * KEYS // 2
    keys = [f"r{number:05d}" for number in range(first, first + KEYS)]
    return [bench.offer(key) for key in draw.choices(keys, k=KEYS // 2)]


def test_eight_workers_over_the_same_keys_have_one_winner_each(bench: Bench) -> None:
    async def claim_and_finish(station: Station, offers: list[Offer]) -> list[str]:
        claims = await _claim(station, offers)
        assert len(claims.won) + len(claims.not_won) == len(offers)
        assert {each.verdict for each in claims.not_won} <= {Verdict.SETTLED, Verdict.IN_PROGRESS}
        answers = await station.finishes.finish([accepted(task) for _, task in claims.won])
        assert {answer.outcome for answer in answers.values()} <= {"done"}
        return [task.record_id for _, task in claims.won]

    won: Counter[str] = Counter()
    with stations(bench, WORKERS) as workers:
        for number in range(ROUNDS):
            draws = [random.Random(f"{number} {worker.actor}") for worker in workers]
            batches = [_overlapping(bench, number, draw) for draw in draws]
            runs = [
                (worker, partial(claim_and_finish, worker, batch))
                for worker, batch in zip(workers, batches, strict=True)
            ]
            for winners in race(*runs):
                won.update(winners)
    assert len(won) > ROUNDS * KEYS // 2
    assert set(won.values()) == {1}
    moves = bench.rows(
        "SELECT move::text, count(*), count(DISTINCT task_id) FROM assay.task_history GROUP BY 1"
    )
    assert set(moves) == {("claim", len(won), len(won)), ("accept", len(won), len(won))}
    for rows in bench.rows(
        "SELECT (SELECT count(*) FROM assay.calls), (SELECT count(*) FROM assay.inputs), "
        "(SELECT count(*) FROM assay.annotation_outputs), (SELECT count(*) FROM assay_vault.texts), "
        "(SELECT count(*) FROM assay.outbox_events)"
    ):
        assert set(rows) == {len(won)}
    assert deadlocks(bench.db) == 0


# What keeps a record to a session until its transaction ends.
_HOLD: Final = (
    "INSERT INTO assay.inputs (record_id, input_version, input_sha256, encrypted_text_ref, source_id, "
    "partition_no, source_offset, first_seen_at) "
    "VALUES (%s, 1, sha256(%s::bytea), 0, 0, 0, 0, assay.assay_now())"
)


# --- opposite orders ----------------------------------------------------------------------------------


def _meet_in_the_middle(bench: Bench, kind: type[ClaimStore]) -> int:
    """Batches a-m-z and z-m-a while a third session holds m; how many deadlocks came of it."""
    there = [bench.offer(key) for key in ("a", "m", "z")]
    back = [bench.offer(key) for key in ("z", "m", "a")]
    with stations(bench, 2, claims=kind) as (first, second), psycopg.connect(bench.url) as third:
        third.execute(_HOLD, ("m", "m"))
        runs = [first.start(_claim(first, there)), second.start(_claim(second, back))]
        until_blocked(bench.db, 2)
        third.rollback()
        won = [record.record_id for run in runs for record, _ in run.result(60).won]
    assert sorted(won) == ["a", "m", "z"]
    return deadlocks(bench.db)


def test_batches_in_opposite_orders_queue(bench: Bench) -> None:
    assert _meet_in_the_middle(bench, ClaimStore) == 0


def test_without_key_order_they_deadlock(bench: Bench) -> None:
    assert _meet_in_the_middle(bench, UnorderedClaims) > 0


# --- replays --------------------------------------------------------------------------------------------

_TABLES: Final = (
    "SELECT schemaname, tablename FROM pg_tables WHERE schemaname IN ('assay', 'assay_vault') ORDER BY 1, 2"
)
_SEQUENCES: Final = (
    "SELECT schemaname, sequencename, last_value FROM pg_sequences "
    "WHERE schemaname IN ('assay', 'assay_vault') ORDER BY 1, 2"
)


def _everything(bench: Bench) -> dict[str, object]:
    """Every row of every table with its locks, and every sequence: the same when nothing was written."""
    seen: dict[str, object] = {"sequences": bench.rows(_SEQUENCES)}
    for schema, table in bench.rows(_TABLES):
        query = sql.SQL(
            "SELECT md5(string_agg(concat_ws('|', t.ctid, t.xmin, t.xmax, t::text), '~' ORDER BY t.ctid)) "
            "FROM {} t"
        ).format(sql.Identifier(schema, table))
        seen[table] = bench.db.execute(query).fetchall()
    return seen


def test_a_replay_of_settled_records_writes_nothing(bench: Bench) -> None:
    with stations(bench, 1) as (worker,):
        offers = [bench.offer(f"r{number}") for number in range(40)]
        tasks = [task for _, task in worker.claim(offers).won]
        worker.finish(*(accepted(task) for task in tasks[:30]), *(parked(task, 60) for task in tasks[30:]))
        before = _everything(bench)
        for _ in range(3):
            claims = worker.claim(offers)
            assert [each.verdict for each in claims.not_won] == [Verdict.SETTLED] * 40
        assert _everything(bench) == before
        # The comparison sees a claim that does write.
        worker.claim([bench.offer("new")])
        assert _everything(bench) != before


def test_a_record_known_from_another_position_leaves_a_trace_of_it(bench: Bench) -> None:
    with stations(bench, 1) as (worker,):
        worker.finish(accepted(worker.claim_one(bench.offer("r"))))
        again = bench.offer("r")
        for _ in range(2):
            assert [each.verdict for each in worker.claim([again]).not_won] == [Verdict.SETTLED]
        assert bench.rows("SELECT source_offset, record_id FROM assay.source_duplicates") == [
            (again.record.position.offset, "r")
        ]


def test_keys_that_stand_twice_in_a_batch(bench: Bench) -> None:
    with stations(bench, 1) as (worker,):
        offers = [bench.offer("a"), bench.offer("b"), bench.offer("a"), bench.offer("a", text="other")]
        claims = worker.claim(offers)
        assert [record.position for record, _ in claims.won] == [o.record.position for o in offers[:2]]
        found = [(each.record.position, each.verdict) for each in claims.not_won]
        assert found == [
            (offers[2].record.position, Verdict.IN_PROGRESS),
            (offers[3].record.position, Verdict.CONFLICT),
        ]
        assert bench.one("SELECT count(*) FROM assay.task_history") == 2


# --- taking over ----------------------------------------------------------------------------------------


def _abandon(bench: Bench, station: Station, number: int) -> list[Offer]:
    """Three records whose lease has just ended, one of them after a retry."""
    offers = [bench.offer(f"r{number:04d}-{each}") for each in range(3)]
    tasks = [task for _, task in station.claim(offers).won]
    station.finish(parked(tasks[0]))
    station.claim_waiting()
    bench.advance(91)
    return offers


def _taken_once(bench: Bench, taken: list[list[ClaimedTask]]) -> None:
    """Each of three tasks has one taker, whom the database agrees with."""
    tasks = {task.task_id: task.attempt_id for tasks in taken for task in tasks}
    assert sum(map(len, taken)) == len(tasks) == 3
    rows = bench.rows(
        "SELECT t.task_id, t.attempt_id, count(*) FILTER (WHERE h.move = 'take_over'), "
        "(SELECT count(*) FROM assay.calls c WHERE c.task_id = t.task_id AND c.outcome = 'outcome_unknown') "
        "FROM assay.annotation_tasks t JOIN assay.task_history h USING (task_id) "
        "WHERE t.task_id = ANY (%s) GROUP BY 1, 2",
        list(tasks),
    )
    assert {row[0]: row[1] for row in rows} == tasks
    assert [row[2:] for row in rows] == [(1, 1)] * 3


@pytest.mark.parametrize("waiting", [1, 2], ids=["claim against claim_waiting", "two claim_waiting"])
def test_one_taker_when_two_take_over_at_once(bench: Bench, waiting: int) -> None:
    bench.stop_clock()

    async def by_offer(station: Station, offers: list[Offer]) -> list[ClaimedTask]:
        return [task for _, task in (await _claim(station, offers)).won]

    async def by_waiting(station: Station) -> list[ClaimedTask]:
        return await station.claims.claim_waiting(100)

    with stations(bench, 3) as (dead, first, second):
        for number in range(TAKE_OVERS):
            offers = _abandon(bench, dead, number)
            other = partial(by_waiting, first) if waiting == 2 else partial(by_offer, first, offers)
            taken = race((first, other), (second, partial(by_waiting, second)))
            left = first.claim_waiting()  # rows that the other one had locked are skipped, not waited for
            _taken_once(bench, [*taken, left])
            first.finish(*(accepted(task) for task in (*taken[0], *left)))
            second.finish(*(accepted(task) for task in taken[1]))
        assert bench.one("SELECT count(*) FROM assay.parked_tasks") == 0
        assert first.run(first.claims.tidy()) > 0
        assert bench.one("SELECT count(*) FROM assay.claim_batches") == 0
    assert deadlocks(bench.db) == 0


# --- losers ---------------------------------------------------------------------------------------------


def _while_the_winner_commits(bench: Bench, lose: Callable[[Bench], str | None]) -> str | None:
    """What a claim hears that waited for another one of the same key; the input is known, the task new."""
    claimed, go_on = threading.Event(), threading.Event()

    def hold(point: str) -> None:
        if point == "in_claim":
            claimed.set()
            assert go_on.wait(60)

    with stations(bench, 1) as (earlier,):
        earlier.claim([bench.offer("r")])
    later = replace(bench, version_id=register(bench.url, bench.name, "m2"))
    with Station(later, "winner", probe=hold) as winner, ThreadPoolExecutor(1) as threads:
        winning = winner.start(_claim(winner, [later.offer("r")]))
        try:
            assert claimed.wait(60)
            losing = threads.submit(lose, later)
            until_blocked(bench.db)
        finally:
            go_on.set()
        assert len(winning.result(60).won) == 1
        return losing.result(60)


def test_who_waited_for_the_winner_hears_of_it(bench: Bench) -> None:
    def lose(later: Bench) -> str:
        with Station(later, "loser") as loser:
            (found,) = loser.claim([later.offer("r")]).not_won
            return found.verdict

    assert _while_the_winner_commits(bench, lose) == "in_progress"


def test_one_statement_for_claim_and_losers_misses_the_winner(bench: Bench) -> None:
    def lose(later: Bench) -> str | None:
        record = later.offer("r").record
        parameters = {
            "record_ids": [record.record_id], "input_versions": [1], "sha256s": [record.sha256],
            "attempt_ids": [uuid4()], "quality_probabilities": [0.0], "quality_selected": [False],
            "version_id": later.version_id, "actor": "loser", "lease_seconds": 90.0,
            "lease_id": None, "account": None,
        }  # fmt: skip
        with psycopg.connect(later.url) as connection:
            ((won, state),) = connection.execute(one_statement_claim(), parameters).fetchall()
        assert not won
        return None if state is None else str(state)

    assert _while_the_winner_commits(bench, lose) is None


def _take_meanwhile(winner: Station, case: str) -> None:
    """What happens to record "r" while another claim of it waits."""
    bench = winner.bench
    task = winner.claim_one(bench.offer("r", text="other" if case == "conflict" else None))
    if case == "settled":
        winner.finish(accepted(task))


def _hears(bench: Bench, kind: type[ClaimStore], case: str) -> tuple[str, float]:
    """Verdict on "r" and the wait, told to a claim that saw it free and then waited while it was taken.

    The claim offers "a" as well, which a third session holds: it waits there, before it comes to "r".
    """
    bench.stop_clock()
    with (
        Station(bench, "loser", claims=kind) as loser,
        Station(bench, "winner", lease_seconds=45.0) as winner,
        psycopg.connect(bench.url) as third,
    ):
        third.execute(_HOLD, ("a", "a"))
        losing = loser.start(_claim(loser, [bench.offer("a"), bench.offer("r")]))
        try:
            until_blocked(bench.db)
            _take_meanwhile(winner, case)
        finally:
            third.rollback()
        claims = losing.result(60)
    assert [record.record_id for record, _ in claims.won] == ["a"]
    (found,) = claims.not_won
    return found.verdict, found.wait_seconds


LATE_VERDICTS: Final = [("settled", 0.0), ("conflict", 0.0), ("in_progress", 45.0)]


@pytest.mark.parametrize(("case", "wait"), LATE_VERDICTS)
def test_who_waited_hears_what_has_become_of_it(bench: Bench, case: str, wait: float) -> None:
    assert _hears(bench, ClaimStore, case) == (case, wait)


@pytest.mark.parametrize("case", [case for case, _ in LATE_VERDICTS])
def test_without_a_second_read_it_hears_nothing_of_that(bench: Bench, case: str) -> None:
    assert _hears(bench, ReadOnceClaims, case) == ("in_progress", 0.0)


# --- two contents under one identity --------------------------------------------------------------------


def _meetings(first: Station, second: Station) -> Counter[tuple[int, tuple[str, ...]]]:
    """Two stations offer other contents under one identity at once, again and again: how many won, and what
    the others heard."""

    async def claim(station: Station, offer: Offer) -> Claims:
        return await _claim(station, [offer])

    seen: Counter[tuple[int, tuple[str, ...]]] = Counter()
    for number in range(MEETINGS):
        one, two = (first.bench.offer(f"r{number:04}", text=text) for text in ("one", "two"))
        answers = race((first, partial(claim, first, one)), (second, partial(claim, second, two)))
        heard = tuple(found.verdict.value for claims in answers for found in claims.not_won)
        seen[sum(len(claims.won) for claims in answers), heard] += 1
    return seen


def _of_another_version(bench: Bench) -> Bench:
    return replace(bench, version_id=register(bench.url, bench.name, "m2"))


def test_of_two_contents_under_one_identity_one_wins(bench: Bench) -> None:
    with stations(bench, 2) as (first, second):
        assert _meetings(first, second) == {(1, ("conflict",)): MEETINGS}
    assert deadlocks(bench.db) == 0


def test_of_two_contents_under_two_versions_one_wins(bench: Bench) -> None:
    with Station(bench, "first") as first, Station(_of_another_version(bench), "second") as second:
        assert _meetings(first, second) == {(1, ("conflict",)): MEETINGS}
    differing = "SELECT count(*) FROM assay.annotation_tasks t JOIN assay.inputs i USING (record_id)"
    assert bench.one(differing) == MEETINGS
    assert bench.one(differing + " WHERE t.input_sha256 <> i.input_sha256") == 0


def test_without_the_comparison_a_second_content_wins_too(bench: Bench) -> None:
    later = _of_another_version(bench)
    with (
        Station(bench, "first", claims=AnyContentClaims) as first,
        Station(later, "second", claims=AnyContentClaims) as second,
    ):
        assert set(_meetings(first, second)) != {(1, ("conflict",))}
