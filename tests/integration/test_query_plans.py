"""Plans on a database with many finished tasks: the hot statements go by index, and finishes stay HOT.

The plans are those that ran, of the real stores' statements and of what the triggers do for them, told by the
server itself in the product's own kind of session.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

import psycopg
from audit_situations import KEK, Line, register
from many_tasks import fill

from assay.adapters.postgres.audit_store import AuditStore
from assay.adapters.postgres.finish_store import FinishStore
from assay.adapters.postgres.owner_lease import OwnerLease
from assay.adapters.postgres.queries import queries
from assay.adapters.postgres.renewal_store import RenewalStore
from assay.adapters.postgres.session import Pool, make_pool
from assay.adapters.vault import Vault
from assay.domain.work import CallOutcome, CallRecord, ClaimedTask, Finish, Passes, park
from assay.ports import HeldLease

FINISHED: Final = 50_000
FIRST: Final = 100_001
BATCH: Final = 100
ROUNDS: Final = 8
# They grow with the work done; instance, versions, releases and legal_moves do not.
LARGE: Final = frozenset(
    {
        "annotation_tasks", "annotation_outputs", "calls", "inputs", "outbox_events", "results",
        "task_history", "texts", "labels", "dead_letters", "review_items",
    }
)  # fmt: skip
HOT_STATEMENTS: Final = frozenset(
    {
        "claim_read", "claim_register_inputs", "claim_tasks", "claim_waiting", "adopt_tasks", "finish_tasks",
        "finish_supersede", "finish_reviews", "finish_proven", "note_first_pass", "record_calls",
        "forget_unknown_calls",
    }
)  # fmt: skip

PURPOSES: Final = {
    body.splitlines()[0]: name for room in ("claim", "finish") for name, body in queries(room).items()
}


@dataclass
class Plans:
    """Relations that statements read from end to end, by statement; "trigger" for what triggers run."""

    seen: set[str] = field(default_factory=set)
    scanned: dict[str, set[str]] = field(default_factory=dict)

    def note(self, diagnostic: psycopg.errors.Diagnostic) -> None:
        message = diagnostic.message_primary or ""
        _, found, plan = message.partition("plan:\n")
        if found:
            told = json.loads(plan)
            name = PURPOSES.get(told["Query Text"].splitlines()[0], "trigger")
            self.seen.add(name)
            self.scanned.setdefault(name, set()).update(_sequential(told["Plan"]))

    @property
    def at_fault(self) -> dict[str, set[str]]:
        """Statements that read a large table from end to end."""
        return {name: found & LARGE for name, found in self.scanned.items() if found & LARGE}


def _sequential(plan: dict[str, Any]) -> Iterator[str]:
    if plan["Node Type"] == "Seq Scan":
        yield plan["Relation Name"]
    for inner in plan.get("Plans", ()):
        yield from _sequential(inner)


async def _listen(pool: Pool, plans: Plans) -> None:
    """Have the only session of the product's own pool tell the plan of every statement."""
    async with pool.connection() as connection:
        connection.add_notice_handler(plans.note)
        for setting in ("LOAD 'auto_explain'", "SET auto_explain.log_min_duration = 0",
                        "SET auto_explain.log_nested_statements = on", "SET auto_explain.log_format = json",
                        "SET client_min_messages = log"):  # fmt: skip
            await connection.execute(setting.encode())


async def _line(pool: Pool, url: str) -> Line:
    line = Line(pool, Vault(KEK), "tickets", register(url, "tickets", "m1"), 0)
    line.source_id = await line.sources.register(kind="file", name="f", fingerprint="f", mapping="{}")
    return line


def _answered(line: Line, task: ClaimedTask) -> Finish:
    """Accepted; as a correction where the first pass has failed before."""
    if task.first_pass_code is None:
        return line.accepted(task)
    return line.accepted(task, Passes(task.first_pass_code, None, (CallRecord(2, CallOutcome.ACCEPTED),)))


async def _round(line: Line) -> None:
    """Claims new and known, a renewal, first-pass notes, finishes, parks, retries, a late report."""
    records = [line.record(f"new {uuid4()}") for _ in range(BATCH)]
    tasks = await line.claim(*records)
    store = FinishStore(line.pool, name=line.name, version_id=line.version_id, actor="worker")
    note = CallRecord(1, CallOutcome.REJECTED, code="json_invalid")
    await store.note_first_pass([(task, "json_invalid", note) for task in tasks[:10]])
    finishes = [line.accepted(task) for task in tasks[20:]]
    await line.finish(*finishes)
    await line.finish(*finishes)
    parks = [park(task, 0.0, "provider_timeout", Passes(), uses_attempt=True) for task in tasks[:20]]
    await line.finish(*parks)
    waiting = await line.claims(lease_seconds=0.0).claim_waiting(BATCH)
    assert len(waiting) == len(parks)
    taken = await line.claims().claim_waiting(BATCH)
    assert {task.taken_over for task in taken} == {True}
    for attempts in (taken, waiting):
        await line.finish(*(_answered(line, task) for task in attempts))
    newer = await line.claim(*(line.record(task.record_id, 2) for task in tasks[:10]))
    await line.finish(*map(line.accepted, newer))
    await line.accept(line.record(f"drawn {uuid4()}"), pool=True)
    await line.claims().tidy()


async def _known(line: Line) -> None:
    """What a replayed file asks (every record is known already), and a renewal."""
    async with line.pool.connection() as connection:
        for record_ids in (["nobody"], [f"r{number:032x}" for number in range(BATCH)]):
            await connection.execute(
                queries("claim")["claim_read"],
                {"record_ids": record_ids, "input_versions": [1] * len(record_ids),
                 "version_id": line.version_id},
            )  # fmt: skip
        await connection.execute(
            queries("claim")["adopt_tasks"],
            {"task_ids": [1, FIRST], "attempt_ids": [uuid4(), uuid4()], "lease_seconds": 90.0, "lease_id": 0},
        )


async def test_hot_statements_never_read_a_large_table_from_end_to_end(db_url: str) -> None:
    """The session is older than the tables are large: plans of its first hours must not stay."""
    plans = Plans()
    pool = make_pool(db_url, size=1)
    await pool.open()
    try:
        await _listen(pool, plans)
        line = await _line(pool, db_url)
        for _ in range(ROUNDS):
            await _round(line)
        fill(db_url, count=FINISHED, version_id=line.version_id, source_id=line.source_id, first=FIRST)
        plans.seen.clear()
        plans.scanned.clear()
        for _ in range(ROUNDS):
            await _round(line)
            await _known(line)
        assert plans.seen >= HOT_STATEMENTS, HOT_STATEMENTS - plans.seen
        assert "trigger" in plans.seen
        assert plans.at_fault == {}
        async with pool.connection() as connection:
            await connection.execute("SELECT FROM assay.annotation_tasks WHERE lease_until < now()")
        assert plans.at_fault == {"trigger": {"annotation_tasks"}}, (
            "a search by lease is seen as the trap it is"
        )
    finally:
        await pool.close()
    report = AuditStore(db_url).audit()
    assert report.broken == ()
    assert report.tasks > FINISHED


async def _hot_share(url: str, *, renewed: bool = False) -> float:
    """The share of updates of tasks that stay HOT while records are claimed, renewed and finished."""
    lease = OwnerLease("worker")
    renewal = RenewalStore(url, lease=lease, lease_seconds=90.0)
    pool = make_pool(url, size=1)
    await pool.open()
    try:
        line = await _line(pool, url)
        lease.lease_id = 0  # unknown to the database: every renewal looks at every task
        for _ in range(10):
            tasks = await line.claim(*(line.record(f"r{uuid4()}") for _ in range(500)))
            if renewed:
                lease.lease_id = 0
                renewal.renew([HeldLease(task.task_id, task.attempt_id, task.lease_id) for task in tasks])
            # Calls come back in any order, in batches smaller than the claims.
            random.Random(1).shuffle(tasks)
            for start in range(0, len(tasks), 50):
                await line.finish(*map(line.accepted, tasks[start : start + 50]))
        async with pool.connection() as connection:
            await connection.execute("SELECT pg_stat_force_next_flush()")
    finally:
        renewal.close()
        await pool.close()
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(
            "SELECT n_tup_hot_upd, n_tup_upd FROM pg_stat_user_tables WHERE relname = 'annotation_tasks'"
        ).fetchone()
    assert row is not None
    hot, updates = row
    assert updates >= 5000
    return float(hot) / float(updates)


# On an idle server nearly all finishes are HOT, as pages are pruned between the batches. A long transaction
# of somebody else holds pruning back; then the free space of the fill factor is left (30 of 70 parts).
_WITHOUT_PRUNING: Final = 0.35


async def test_finishes_stay_hot(db_url: str) -> None:
    assert await _hot_share(db_url) > _WITHOUT_PRUNING


async def test_renewals_and_finishes_stay_hot(db_url: str) -> None:
    assert await _hot_share(db_url, renewed=True) > _WITHOUT_PRUNING / 2


async def test_an_index_on_leases_would_end_hot_updates(db_url: str) -> None:
    with psycopg.connect(db_url) as connection:
        connection.execute("CREATE INDEX ON assay.annotation_tasks (lease_until) WHERE state = 'processing'")
    assert await _hot_share(db_url) == 0.0
