"""Low priority, paused and resumed: offsets are done, no attempt and no age is used up, nobody starves."""

from __future__ import annotations

import psycopg
import pytest
from audit_situations import KEK
from audit_situations import Line as AuditLine
from audit_situations import register as register_line
from stores import Bench, Station, open_bench, register, stations

from assay.adapters.postgres.audit_store import AuditStore
from assay.adapters.postgres.low_priority_acts import LowPriorityActs
from assay.adapters.postgres.session import make_pool
from assay.adapters.postgres.status_store import StatusStore
from assay.adapters.vault import Vault
from assay.cli.status_alerts import alerts
from assay.domain.failures import ConfigurationError
from assay.domain.identity import Attributes, InputRecord, SourcePosition
from assay.domain.work import LowPriority, Offer, Passes, Verdict, park

REASON = "low_priority_paused"


def low(bench: Bench, record_id: str, *, text: str = "text") -> Offer:
    position = SourcePosition(0, next(bench.offsets))
    return Offer(
        InputRecord(record_id, 1, text, "in.jsonl", position, Attributes(priority="low")), 0.0, False
    )


def hold(station: Station, *offers: Offer) -> list[str]:
    """Park offers of low priority; the ids of those that were."""
    claims = station.run(station.claims.claim(station.bench.source_id, offers, park_as=REASON))
    return [record.record_id for record, _ in claims.won]


def pause(bench: Bench) -> None:
    LowPriorityActs(bench.url).pause(bench.name, reason="the queue is long", actor="ann")


def resume(bench: Bench) -> None:
    LowPriorityActs(bench.url).resume(bench.name, reason="it is short", actor="ann")


def waiting(station: Station, most: int = 100) -> list[str]:
    return [task.record_id for task in station.claim_waiting(most)]


def test_what_is_parked_uses_up_neither_attempt_nor_age(db_url: str) -> None:
    with open_bench(db_url) as bench, stations(bench, 1) as (a,):
        bench.stop_clock()
        pause(bench)
        assert hold(a, low(bench, "x"), low(bench, "y")) == ["x", "y"]
        assert bench.rows("SELECT DISTINCT state::text, attempts, take_overs, last_reason FROM "
                          "assay.annotation_tasks") == [("retry_scheduled", 0, 0, REASON)]  # fmt: skip
        bench.advance(3600)
        assert waiting(a) == []
        assert a.run(a.claims.next_due()) == (None, 0)
        assert a.run(a.claims.low_priority()) == LowPriority(paused=True, held=2)
        resume(bench)
        assert a.run(a.claims.next_due()) == (0.0, 2)
        assert a.run(a.claims.low_priority()) == LowPriority(paused=False, held=0)
        tasks = a.claim_waiting(10)
        assert [(task.record_id, task.text, task.attempts, task.age_seconds) for task in tasks] == [
            ("x", "text", 1, 0.0), ("y", "text", 1, 0.0),
        ]  # fmt: skip
        assert AuditStore(db_url, bench.vault).audit().broken == ()


def test_a_message_that_comes_again_changes_nothing(db_url: str) -> None:
    with open_bench(db_url) as bench, stations(bench, 1) as (a,):
        hold(a, low(bench, "x"))
        offers = [low(bench, "x"), low(bench, "x", text="other")]
        claims = a.run(a.claims.claim(bench.source_id, offers, park_as=REASON))
        assert [found.verdict for found in claims.not_won] == [Verdict.SETTLED, Verdict.CONFLICT]
        assert bench.one("SELECT moves FROM assay.annotation_tasks") == 2


def test_the_pause_is_of_one_pipeline_with_all_its_versions(db_url: str) -> None:
    with open_bench(db_url) as bench, open_bench(db_url) as other, stations(bench, 1) as (a,):
        newer = Bench(
            bench.url,
            bench.db,
            bench.name,
            register(bench.url, bench.name, "m2"),
            bench.source_id,
            bench.vault,
        )
        pause(bench)
        for each in (bench, newer, other):
            a.work_for(each)
            hold(a, low(each, f"of {each.version_id}"))
        found = []
        for each in (bench, newer, other):
            a.work_for(each)
            found.append(waiting(a))
        assert found == [[], [], [f"of {other.version_id}"]]


def test_normal_ones_go_first_and_low_ones_are_not_starved(db_url: str) -> None:
    """There is always more normal work than a worker takes at once; every eighth look is for low ones."""
    with open_bench(db_url) as bench, stations(bench, 1) as (a,):
        hold(a, *(low(bench, f"low {n}") for n in range(3)))
        claims = a.claim([bench.offer(f"normal {n}") for n in range(20)])
        a.finish(*(park(task, 0.0, "drained", Passes(), uses_attempt=False) for _, task in claims.won))
        looks = [waiting(a, 1)[0].split()[0] for _ in range(16)]
        assert looks == [*["normal"] * 7, "low", *["normal"] * 7, "low"]
        assert "low 2" in waiting(a, 100)


@pytest.mark.parametrize("paused", [True, False])
def test_retries_of_low_priority_are_held_as_well(db_url: str, paused: bool) -> None:
    with open_bench(db_url) as bench, stations(bench, 1) as (a,):
        tasks = [a.claim_one(low(bench, "low retry")), a.claim_one(bench.offer("normal retry"))]
        a.finish(*(park(each, 0.0, "provider_timeout", Passes(), uses_attempt=True) for each in tasks))
        if paused:
            pause(bench)
        held = [] if paused else ["low retry"]
        assert a.run(a.claims.claim_waiting(10, retries=0)) == []
        assert waiting(a, 1) == ["normal retry"]
        assert waiting(a) == held
        assert AuditStore(db_url, bench.vault).audit().broken == ()


def test_the_retry_budget_is_one_for_both(db_url: str) -> None:
    with open_bench(db_url) as bench, stations(bench, 1) as (a,):
        tasks = [a.claim_one(offer) for offer in (low(bench, "l1"), low(bench, "l2"), bench.offer("n1"))]
        a.finish(*(park(each, 0.0, "provider_timeout", Passes(), uses_attempt=True) for each in tasks))
        hold(a, low(bench, "held"))
        found = a.run(a.claims.claim_waiting(10, retries=2))
        assert {task.record_id for task in found} == {"n1", "l1", "held"}


def test_a_low_one_that_a_dead_worker_held_is_found(db_url: str) -> None:
    with open_bench(db_url) as bench, stations(bench, 2) as (a, b):
        a.claim([low(bench, "x")])
        pause(bench)
        bench.advance(200)
        assert waiting(b) == ["x"]


def test_held_rows_are_not_looked_at(db_url: str) -> None:
    """Thousands held: the look at the work list reads none of them."""
    with open_bench(db_url) as bench, stations(bench, 1) as (a,):
        hold(a, *(low(bench, f"low {n}") for n in range(3000)))
        pause(bench)
        bench.db.execute("ANALYZE assay.parked_tasks")
        (task,) = [task for _, task in a.claim([bench.offer("normal")]).won]
        a.finish(park(task, 0.0, "drained", Passes(), uses_attempt=False))
        before = _fetched(bench)
        assert waiting(a, 10) == ["normal"]
        assert _fetched(bench) - before < 100


def _fetched(bench: Bench) -> int:
    bench.db.execute("SELECT pg_stat_clear_snapshot()")
    return int(bench.one(
        "SELECT coalesce(idx_tup_fetch, 0) + seq_tup_read FROM pg_stat_all_tables "
        "WHERE relid = 'assay.parked_tasks'::regclass"
    ))  # fmt: skip


# --- acts ---------------------------------------------------------------------------------------------


def test_acts_are_kept_and_an_act_that_changes_nothing_is_none(db_url: str) -> None:
    with open_bench(db_url) as bench, stations(bench, 1) as (a,):
        acts = LowPriorityActs(db_url)
        hold(a, low(bench, "x"))
        told = [
            acts.resume(bench.name, reason="r", actor="ann"),
            acts.pause(bench.name, reason="p", actor="ann"),
            acts.pause(bench.name, reason="p", actor="bob"),
            acts.resume(bench.name, reason="r", actor="bob"),
        ]
        assert told == [(False, 1), (True, 1), (False, 1), (True, 1)]
        assert bench.rows("SELECT kind, actor FROM assay.low_priority_acts ORDER BY act_id") == [
            ("paused", "ann"), ("resumed", "bob"),
        ]  # fmt: skip
        with pytest.raises(psycopg.Error, match="not allowed"):
            bench.db.execute("DELETE FROM assay.low_priority_acts")
    with pytest.raises(ConfigurationError, match="no pipeline 'nobody'"):
        acts.pause("nobody", reason="p", actor="ann")


def test_status_tells_of_it(db_url: str) -> None:
    with open_bench(db_url) as bench, stations(bench, 1) as (a,):
        hold(a, low(bench, "x"))
        pause(bench)
        status = StatusStore(db_url).read()
        (told,) = alerts(status, [])
        assert "the queue is long. 1 task parked" in told
        assert f"assay pipeline resume-low {bench.name}" in told
        (version,) = status.versions
        assert (version.waiting["parked"], version.waiting["due"]) == (1, 0)
        bench.advance(3600)
        assert AuditStore(db_url, bench.vault).audit().notes == ()
        resume(bench)
        assert alerts(StatusStore(db_url).read(), []) == []
        assert [note.count for note in AuditStore(db_url, bench.vault).audit().notes] == [1]


async def test_a_message_knows_its_time_and_the_source_that_it_names(db_url: str) -> None:
    pool = make_pool(db_url, size=1)
    await pool.open()
    try:
        line = AuditLine(pool, Vault(KEK), "tickets", register_line(db_url, "tickets", "m1"), 0)
        line.source_id = await line.sources.register(kind="kafka", name="t", fingerprint="t", mapping="{}")
        timed = SourcePosition(0, 1, None, 2, 1_700_000_000_123)
        await line.claim(line.record("plain"), line.record("named", source="crm"))
        await line.claim(InputRecord("timed", 1, "t", "t", timed))
    finally:
        await pool.close()
    with psycopg.connect(db_url) as connection:
        found = connection.execute(
            "SELECT record_id, source_name, (extract(epoch FROM source_timestamp) * 1000)::int8 "
            "FROM assay.inputs ORDER BY record_id"
        ).fetchall()
    assert found == [("named", "crm", None), ("plain", None, None), ("timed", None, 1_700_000_000_123)]
