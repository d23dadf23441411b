"""Connections that break at the worst moment: what was committed is recognised, the rest is done again."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeVar

import psycopg
import pytest
from finishes import accepted, parked, referred, refused
from psycopg import sql
from stores import Bench, Station, open_bench
from waiting import until

from assay.adapters.postgres.renewal_store import RenewalStore
from assay.adapters.postgres.session import Connection, DatabaseUnavailable, transact
from assay.domain.identity import MalformedInput, SourcePosition
from assay.domain.work import CallOutcome, CallRecord, ClaimedTask, FinishOutcome, Isolation, Verdict
from assay.ports import HeldLease
from tcp_proxy import TcpProxy, proxied

T = TypeVar("T")
TROUBLES: Final = ("lost_replies", "lost_commits")


@pytest.fixture
def bench(db_url: str) -> Iterator[Bench]:
    with open_bench(db_url) as opened:
        opened.stop_clock()
        yield opened


@pytest.fixture
def proxy(db_url: str) -> Iterator[TcpProxy]:
    with proxied(db_url) as running:
        yield running


def _claim(worker: Station, prefix: str) -> list[ClaimedTask]:
    return [task for _, task in worker.claim([worker.bench.offer(f"{prefix}{n}") for n in range(4)]).won]


def _nothing(worker: Station, prefix: str) -> list[ClaimedTask]:
    return []


def _abandoned(worker: Station, prefix: str) -> list[ClaimedTask]:
    tasks = _claim(worker, prefix)
    worker.finish(parked(tasks[0]))
    worker.bench.advance(91)
    return []


def _claims(worker: Station, tasks: list[ClaimedTask], prefix: str) -> object:
    claims = worker.claim([worker.bench.offer(f"{prefix}{n}") for n in range(4)])
    return len(claims.won), claims.not_won


def _takes_over(worker: Station, tasks: list[ClaimedTask], prefix: str) -> object:
    return sorted((task.record_id[-1], task.text[-1], task.taken_over) for task in worker.claim_waiting())


def _finishes(worker: Station, tasks: list[ClaimedTask], prefix: str) -> object:
    first, second, third, fourth = tasks
    answers = worker.finish(accepted(first), referred(second), refused(third), parked(fourth))
    return [answer.state for answer in answers]


def _notes(worker: Station, tasks: list[ClaimedTask], prefix: str) -> object:
    call = CallRecord(1, CallOutcome.REJECTED, code="json_invalid")
    return len(worker.run(worker.finishes.note_first_pass([(task, "json_invalid", call) for task in tasks])))


def _isolates(worker: Station, tasks: list[ClaimedTask], prefix: str) -> object:
    position = SourcePosition(0, next(worker.bench.offsets))
    item = Isolation.of_malformed(MalformedInput(position, "in.jsonl", b"x", "not_json"))
    worker.run(worker.sources.isolate(worker.bench.source_id, [item]))
    return None


def _commits(worker: Station, tasks: list[ClaimedTask], prefix: str) -> object:
    worker.run(worker.sources.commit(worker.bench.source_id, 7))
    return worker.run(worker.sources.checkpoint(worker.bench.source_id))


@dataclass(frozen=True)
class Step:
    """What is done beforehand, and the one transaction that the trouble meets."""

    prepare: Callable[[Station, str], list[ClaimedTask]]
    act: Callable[[Station, list[ClaimedTask], str], object]


STEPS: Final = {
    "claim": Step(_nothing, _claims),
    "take over": Step(_abandoned, _takes_over),
    "finish": Step(_claim, _finishes),
    "note": Step(_claim, _notes),
    "isolate": Step(_nothing, _isolates),
    "commit offset": Step(_nothing, _commits),
}

# Not the leases: one whose reply was lost holds nothing, and is forgotten once it has run out. Nor the vault
# key's row, which only the first writer makes, nor spend, whose rows go by connection (the calls are there).
_TABLES: Final = (
    "SELECT schemaname, tablename FROM pg_tables "
    "WHERE schemaname IN ('assay', 'assay_vault') AND tablename NOT IN ('leases', 'keys', 'spend')"
)
_MOVES: Final = "SELECT move::text, from_state::text, to_state::text, reason FROM assay.task_history"
_CALLS: Final = "SELECT outcome, pass_number, code, cost FROM assay.calls"


def _contents(bench: Bench) -> Counter[object]:
    """How many rows each table has, and what the ledgers say."""
    found: Counter[object] = Counter()
    for schema, table in bench.rows(_TABLES):
        count = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(schema, table))
        found[table] = bench.db.execute(count).fetchall()[0][0]
    found.update(bench.rows(_MOVES))
    found.update(bench.rows(_CALLS))
    return found


def _effect(worker: Station, act: Callable[[], T]) -> tuple[T, Counter[object]]:
    before = _contents(worker.bench)
    answer = act()
    after = _contents(worker.bench)
    after.subtract(before)
    return answer, Counter({what: count for what, count in after.items() if count})


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("name", STEPS)
def test_the_effect_is_the_same_as_without_trouble(
    bench: Bench, proxy: TcpProxy, db_url: str, name: str, trouble: str
) -> None:
    step = STEPS[name]
    with Station(bench, "worker", url=proxy.url) as worker:
        tasks = step.prepare(worker, "disturbed-")
        seen = proxy.trouble.commits_seen
        setattr(proxy.trouble, trouble, 1)
        disturbed = _effect(worker, lambda: step.act(worker, tasks, "disturbed-"))
        # The trouble did happen, and the transaction was run twice.
        assert getattr(proxy.trouble, trouble) == 0
        assert proxy.trouble.commits_seen >= seen + 2
    with open_bench(db_url) as calm, Station(calm, "worker") as worker:
        tasks = step.prepare(worker, "calm-")
        assert _effect(worker, lambda: step.act(worker, tasks, "calm-")) == disturbed


def test_a_finish_whose_reply_was_lost_is_already_done(bench: Bench, proxy: TcpProxy) -> None:
    with Station(bench, "worker", url=proxy.url) as worker:
        task = worker.claim_one(bench.offer("r"))
        proxy.trouble.lost_replies = 1
        (answer,) = worker.finish(accepted(task))
        assert (answer.outcome, answer.state) == (FinishOutcome.ALREADY_DONE, "auto_candidate")


def test_a_lost_reply_and_then_a_newer_attempt(bench: Bench) -> None:
    """The park went through; by the time its worker asks again, somebody else works on the task."""
    with Station(bench, "second") as second, Station(bench, "worker") as worker:
        task = worker.claim_one(bench.offer("r"))
        worker.finish(parked(task))
        (taken,) = second.claim_waiting()
        (answer,) = worker.finish(parked(task))
        assert (answer.outcome, answer.state) == (FinishOutcome.ALREADY_DONE, "retry_scheduled")
        assert second.finish(accepted(taken))[0].outcome is FinishOutcome.DONE
        assert bench.one("SELECT count(*) FROM assay.calls") == 2


def test_a_claim_whose_reply_was_lost_is_won(bench: Bench, proxy: TcpProxy) -> None:
    with Station(bench, "worker", url=proxy.url) as worker, Station(bench, "other") as other:
        proxy.trouble.lost_replies = 1
        task = worker.claim_one(bench.offer("r"))
        assert [each.verdict for each in other.claim([bench.offer("r")]).not_won] == [Verdict.IN_PROGRESS]
        assert worker.finish(accepted(task))[0].outcome is FinishOutcome.DONE
        assert bench.rows(_CALLS) == [("accepted", 1, None, accepted(task).passes.calls[0].cost)]
        assert worker.run(worker.claims.tidy()) == 1


# --- killed sessions --------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", ["in_claim", "in_finish"])
def test_a_session_killed_in_mid_transaction(bench: Bench, point: str) -> None:
    kills: list[tuple[object, ...]] = []

    def kill_once(name: str) -> None:
        if name == point and not kills:
            with psycopg.connect(bench.url, autocommit=True) as admin:
                kills.extend(admin.execute(
                    "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND application_name = 'assay' "
                    "AND state = 'idle in transaction'"
                ).fetchall())  # fmt: skip

    with Station(bench, "worker", probe=kill_once) as worker:
        task = worker.claim_one(bench.offer("r"))
        (answer,) = worker.finish(accepted(task))
        assert kills == [(True,)]
        # The server rolled the first run back, so the second one did the work.
        assert answer.outcome is FinishOutcome.DONE
    assert Counter(bench.rows(_MOVES)) == Counter(
        [("claim", None, "processing", "offered"), ("accept", "processing", "auto_candidate", "confident")]
    )
    assert bench.one("SELECT count(*) FROM assay.calls") == 1


_IDLE: Final = (
    "SELECT count(*) FROM pg_stat_activity "
    "WHERE datname = current_database() AND state = 'idle in transaction'"
)


def test_a_session_that_the_server_gave_up_as_idle(bench: Bench) -> None:
    """A worker that was stopped in mid-transaction (SIGSTOP, a suspended laptop) goes on afterwards."""
    stalls: list[str] = []

    def stall_once(name: str) -> None:
        if name == "in_finish" and not stalls:
            stalls.append(name)
            with psycopg.connect(bench.url, autocommit=True) as admin:
                until(lambda: admin.execute(_IDLE).fetchall() == [(0,)], "the server to give the session up")

    with Station(bench, "worker", probe=stall_once, statement_timeout=0.5) as worker:
        task = worker.claim_one(bench.offer("r"))
        assert worker.finish(accepted(task))[0].outcome is FinishOutcome.DONE
    assert stalls


# --- silence ----------------------------------------------------------------------------------------------


def test_a_reply_that_never_comes_is_given_up_and_asked_for_again(bench: Bench, proxy: TcpProxy) -> None:
    with Station(bench, "worker", url=proxy.url, statement_timeout=0.5) as worker:
        task = worker.claim_one(bench.offer("r"))
        proxy.trouble.silent_replies = 1
        (answer,) = worker.finish(accepted(task))
        assert (answer.outcome, answer.state) == (FinishOutcome.ALREADY_DONE, "auto_candidate")
        assert bench.one("SELECT count(*) FROM assay.calls") == 1


def test_a_network_that_swallows_everything_ends_in_an_error(bench: Bench, proxy: TcpProxy) -> None:
    with Station(bench, "worker", url=proxy.url, statement_timeout=0.5) as worker:
        worker.pool.timeout = 1.0  # for a new connection, which never comes either

        async def work(connection: Connection) -> None:
            proxy.trouble.silent = True
            await connection.execute("SELECT 1")

        with pytest.raises(DatabaseUnavailable, match="nothing is lost"):
            worker.run(transact(worker.pool, work, patience_seconds=0.2))
        assert proxy.trouble.silent
        proxy.trouble.silent = False
    assert bench.one("SELECT count(*) FROM assay.task_history") == 0


def test_a_renewal_that_hangs_is_tried_again(bench: Bench, proxy: TcpProxy) -> None:
    with Station(bench, "worker") as worker:
        task = worker.claim_one(bench.offer("r"))
    store = RenewalStore(proxy.url, lease=worker.lease, lease_seconds=1.5)
    lease = HeldLease(task.task_id, task.attempt_id, task.lease_id)
    assert store.renew([lease]) == {task.attempt_id}
    proxy.trouble.silent = True
    started = time.monotonic()
    with pytest.raises(ConnectionError):
        store.renew([lease])
    assert time.monotonic() - started < 30  # its own limit is well below; the network's would be minutes
    proxy.trouble.silent = False
    assert store.renew([lease]) == {task.attempt_id}
    store.close()


def test_a_slow_network_changes_nothing(bench: Bench, proxy: TcpProxy) -> None:
    proxy.trouble.delay_seconds = 0.005
    with Station(bench, "worker", url=proxy.url) as worker:
        tasks = _claim(worker, "r")
        assert {answer.outcome for answer in worker.finish(*map(accepted, tasks))} == {FinishOutcome.DONE}
