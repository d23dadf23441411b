"""What `assay status` and `assay explain` say of an incident: accounts, workers, parked work, the last hour,
and what held a version up. It is found by keys, however much was done before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Final

import psycopg
import pytest
from finishes import accepted, parked, refused
from many_tasks import fill
from stores import LEASE, Bench, Station, open_bench, register, register_source

from assay.adapters.postgres.account_store import AccountStore
from assay.adapters.postgres.budget_store import BudgetStore
from assay.adapters.postgres.explain_store import ExplainStore
from assay.adapters.postgres.queries import queries
from assay.adapters.postgres.status_store import Status, StatusStore
from assay.adapters.postgres.version_acts import VersionActs
from assay.adapters.postgres.version_events import VersionEvents
from assay.cli.status_alerts import alerts
from assay.domain.account import AccountReport
from assay.domain.breaker import Failure
from assay.domain.pacing import Limits
from assay.domain.work import CallOutcome, CallRecord, Passes, park

MANY: Final = 50_000
BY_KEYS: Final = ("waiting", "parked", "workers", "hour", "hour_outcomes", "dead_letters", "reviews")


@pytest.fixture
def bench(db_url: str) -> Iterator[Bench]:
    with open_bench(db_url) as made:
        made.stop_clock()
        yield made


def status(bench: Bench) -> Status:
    return StatusStore(bench.url).read()


def told(bench: Bench) -> str:
    return "\n".join(alerts(status(bench), BudgetStore(bench.url).read()))


def test_workers_are_told_apart_by_what_they_hold(bench: Bench) -> None:
    with Station(bench, "gone") as gone, Station(bench, "here") as here, Station(bench, "idle") as idle:
        gone.claim([bench.offer("a"), bench.offer("b")])
        bench.advance(LEASE + 1)
        held = here.claim_one(bench.offer("c"))
        idle.finish(accepted(idle.claim_one(bench.offer("d"))))
        bench.advance(LEASE / 2)
        here.renew([held])
        found = {str(row["worker"]): (row["live"], row["expired"]) for row in status(bench).workers}
        assert found == {"gone": (0, 2), "here": (1, 0), "idle": (0, 0)}
        assert "2 tasks lost the worker" in told(bench)
        here.finish(accepted(held))
        assert status(bench).versions[0].waiting["expired_leases"] == 2


def test_parked_work_is_counted_by_its_reason(bench: Bench) -> None:
    with Station(bench, "w") as station:
        first = station.claim_one(bench.offer("first"))
        began = bench.one("SELECT assay.assay_now()")
        bench.advance(10)
        later, waits = station.claim_one(bench.offer("later")), station.claim_one(bench.offer("waits"))
        station.finish(parked(first, 30.0), parked(later, 20.0))
        station.finish(park(waits, 5.0, "drained", Passes(), uses_attempt=False))
        (version,) = status(bench).versions
        assert [(row["reason"], row["count"]) for row in version.parked] == [
            ("provider_timeout", 2), ("drained", 1),
        ]  # fmt: skip
        assert version.parked[0]["oldest"] == began
        bench.advance(60)
        taken = station.claim_waiting()
        assert len(taken) == 3
        assert status(bench).versions[0].parked == []


def test_the_last_hour_has_counts_costs_and_latencies(bench: Bench) -> None:
    def took(milliseconds: float, outcome: CallOutcome = CallOutcome.ACCEPTED) -> CallRecord:
        code = None if outcome is CallOutcome.ACCEPTED else "provider_timeout"
        return CallRecord(1, outcome, code=code, cost=Decimal("0.5"), latency_ms=milliseconds)

    with Station(bench, "w") as station:
        station.finish(refused(station.claim_one(bench.offer("before"))))
        bench.advance(3_601)
        for number in range(1, 21):
            task = station.claim_one(bench.offer(f"r{number}"))
            call = took(60_000.0, CallOutcome.FAILED) if number == 20 else took(10.0 * number)
            passes = Passes(calls=(call,))
            done = replace(accepted(task), passes=passes)
            last = park(task, 1.0, "provider_timeout", passes, uses_attempt=True)
            station.finish(last if number == 20 else done)
    (version,) = status(bench).versions
    assert (version.hour["calls"], version.hour["cost"]) == (20, Decimal("10.0"))
    assert (version.hour["p50_ms"], version.hour["p95_ms"]) == (pytest.approx(100), pytest.approx(181))
    assert [(row["outcome"], row["code"], row["calls"]) for row in version.hour_outcomes] == [
        ("accepted", None, 19), ("failed", "provider_timeout", 1),
    ]  # fmt: skip
    assert version.calls["calls"] == 21
    bench.advance(3_601)
    assert (status(bench).versions[0].hour["calls"], status(bench).versions[0].hour_outcomes) == (0, [])


def test_an_account_shows_its_limits_and_its_breaker(bench: Bench) -> None:
    with Station(bench, "w") as station:
        account = AccountStore(station.pool, account="openai", worker="w")
        station.run(account.enter())
        station.run(account.sync(AccountReport(stated=Limits(600.0, 9_000.0))))
        (row,) = status(bench).accounts
        assert (row["breaker_state"], row["requests_per_minute"], row["limits_source"]) == (
            "closed", 600.0, "headers",
        )  # fmt: skip
        assert alerts(status(bench), []) == []
        station.run(account.open_breaker(Failure("provider_overloaded", 0.5)))
        (row,) = status(bench).accounts
        assert (row["breaker_state"], row["open_reason"], row["times_opened"]) == (
            "open", "provider_overloaded", 1,
        )  # fmt: skip
        assert str(row["next_probe_at"]) > str(row["opened_at"])
        assert "VENDOR DOWN: openai" in told(bench)


def test_alerts_name_stops_freezes_changed_models_and_caps(bench: Bench) -> None:
    acts = VersionActs(bench.url)
    with Station(bench, "w") as station:
        events = VersionEvents(station.pool, version_id=bench.version_id, actor="w")
        station.run(events.note_model("model-1"))
        assert told(bench) == ""
        station.run(events.note_model("model-2"))
        assert [row["model"] for row in status(bench).versions[0].models] == ["model-1", "model-2"]
        assert "answers as model-2, where it began as model-1" in told(bench)
        acts.unfreeze(bench.version_id, reason="seen", actor="ann")
        acts.freeze(bench.version_id, reason="looks odd", actor="ann")
        assert "by ann: looks odd" in told(bench)
        acts.unfreeze(bench.version_id, reason="seen", actor="ann")
        station.run(events.stop("provider_auth", 401))
        assert "provider_auth, HTTP 401. 401, 403 or 407: the key is refused." in told(bench)
        acts.resume(bench.version_id, reason="new key", actor="ann")
        assert told(bench) == ""
        BudgetStore(bench.url).set(bench.name, {"day": Decimal("0.02")}, "USD", "ann")
        assert f"SPEND CAP: of 0.02 USD for {bench.name} for today" in told(bench)
        BudgetStore(bench.url).set(bench.name, {"day": Decimal("0.04")}, "USD", "ann")
        assert told(bench) == ""


def test_explain_tells_what_held_the_version_up_while_the_record_was_at_work(bench: Bench) -> None:
    acts = VersionActs(bench.url)
    acts.stop(bench.version_id, reason="long before", actor="ann")
    acts.resume(bench.version_id, reason="over", actor="ann")
    with Station(bench, "w") as station:
        events = VersionEvents(station.pool, version_id=bench.version_id, actor="w")
        station.run(events.note_model("model-1"))
        bench.advance(1)
        task = station.claim_one(bench.offer("r"))
        bench.advance(1)
        station.run(events.stop("provider_auth", 401))
        bench.advance(1)
        acts.resume(bench.version_id, reason="new key", actor="ann")
        station.run(events.note_model("model-2"))
        bench.advance(1)
        station.finish(accepted(task))
        bench.advance(1)
        acts.unfreeze(bench.version_id, reason="seen", actor="ann")
        acts.stop(bench.version_id, reason="long after", actor="ann")
        acts.freeze(bench.version_id, reason="long after", actor="ann")
    (annotation,) = ExplainStore(bench.url).explain("r").annotations
    assert [(row["what"], row["why"], row["until_by"]) for row in annotation.holds] == [
        ("frozen", "model_changed", "ann"),
        ("model_changed", "model-1 to model-2", None),
        ("stopped", "provider_auth", "ann"),
    ]


def test_what_goes_on_now_is_found_by_keys(db_url: str) -> None:
    """Reading all calls for the last hour is the negative control."""
    with psycopg.connect(db_url, autocommit=True) as db:
        version_id, source_id = register(db_url, "tickets", "m"), register_source(db, "tickets")
        fill(db_url, count=MANY, version_id=version_id, source_id=source_id)
        sql = queries("status")
        for name in BY_KEYS:
            plan = "\n".join(row[0] for row in db.execute("EXPLAIN " + sql[f"status_{name}"]))
            for table in ("annotation_tasks", "calls", "dead_letters", "review_items"):
                assert f"Seq Scan on {table} " not in plan, (name, plan)
        everything = "\n".join(row[0] for row in db.execute("EXPLAIN " + sql["status_calls"]))
        assert "Seq Scan on calls" in everything
