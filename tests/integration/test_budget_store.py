"""Money in PostgreSQL: what was spent is what the ledger says, and workers at once never pass a cap."""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from importlib.resources import files
from typing import Any, Final

import psycopg
import pytest
from finishes import accepted, parked
from psycopg import sql
from psycopg.conninfo import make_conninfo
from stores import RESERVE, Bench, Station, open_bench, register, stations
from waiting import until, until_blocked

from assay.adapters.postgres import migrate as migrate_module
from assay.adapters.postgres.audit_store import AuditStore
from assay.adapters.postgres.budget_store import BUDGET_LOCKS, BudgetStore, PipelineBudget, ReservationStore
from assay.adapters.postgres.migrate import migrate, migrations
from assay.adapters.postgres.queries import queries
from assay.domain.failures import ConfigurationError
from assay.domain.spend import CLAIM_CALLS, Standing
from assay.domain.work import CallOutcome, CallRecord, ClaimedTask, FinishOutcome, Passes, park
from assay.pipeline.spend import SpendGuard, SpendTerms

STEP: Final = CLAIM_CALLS * RESERVE
SECONDS: Final = 150.0
DAY: Final = 86_400.0


@pytest.fixture
def bench(db_url: str) -> Iterator[Bench]:
    with open_bench(db_url) as opened:
        yield opened


def _spent(bench: Bench) -> tuple[Decimal, int, int]:
    return tuple(
        bench.rows(
            "SELECT coalesce(sum(cost), 0), coalesce(sum(calls), 0)::int, "
            "coalesce(sum(calls_unknown), 0)::int FROM assay.spend WHERE version_id = %s",
            bench.version_id,
        )[0]
    )


def _ledger(bench: Bench) -> Decimal:
    return Decimal(
        bench.one("SELECT coalesce(sum(cost), 0) FROM assay.calls WHERE version_id = %s", bench.version_id)
    )


def _budget(bench: Bench) -> PipelineBudget:
    (budget,) = BudgetStore(bench.url).read(bench.name)
    return budget


def _cap(bench: Bench, **caps: str) -> None:
    found: dict[Any, Decimal] = {kind: Decimal(cap) for kind, cap in caps.items()}
    BudgetStore(bench.url).set(bench.name, found, "USD", "ann")


def _reservations(bench: Bench) -> list[tuple[Any, ...]]:
    return bench.rows("SELECT worker, amount FROM assay.spend_reservations ORDER BY worker")


def _store(station: Station, seconds: float = SECONDS) -> ReservationStore:
    return _port(ReservationStore, station, seconds)


def _port(kind: type[ReservationStore], station: Station, seconds: float = SECONDS) -> ReservationStore:
    bench = station.bench
    return kind(
        station.pool, name=bench.name, version_id=bench.version_id, worker=station.actor, seconds=seconds
    )


# --- what was spent -----------------------------------------------------------------------------------


def test_finishes_add_up_by_version_and_day(bench: Bench) -> None:
    bench.stop_clock()
    with Station(bench, "worker") as worker:
        first, second, third = (worker.claim_one(bench.offer(key)) for key in "abc")
        unknown = CallRecord(1, CallOutcome.FAILED, code="provider_timeout")
        refused = CallRecord(1, CallOutcome.FAILED, code="provider_rate_limited", billed=False)
        worker.finish(accepted(first), park(second, 0.0, "x", Passes(calls=(unknown,)), uses_attempt=True))
        bench.advance(DAY)
        worker.finish(park(third, 0.0, "x", Passes(calls=(refused,)), uses_attempt=True))
        worker.finish(*(accepted(task) for task in worker.claim_waiting()))
    rows = bench.rows(
        "SELECT sum(cost), sum(calls)::int, sum(calls_unknown)::int FROM assay.spend "
        "GROUP BY day ORDER BY day"
    )
    assert rows == [(Decimal("0.001"), 2, 1), (Decimal("0.002"), 3, 0)]
    assert AuditStore(bench.url).audit().broken == ()


def test_a_lost_call_is_charged_at_take_over_and_gives_way_to_its_late_report(bench: Bench) -> None:
    bench.stop_clock()
    with Station(bench, "first") as first, Station(bench, "second") as second:
        task = first.claim_one(bench.offer("r"))
        bench.advance(91)
        (taken,) = second.claim_waiting()
        assert _spent(bench) == (RESERVE, 1, 0)
        bench.advance(DAY)
        assert first.finish(accepted(task, Decimal("0.003")))[0].outcome is FinishOutcome.LEASE_LOST
        assert _spent(bench) == (Decimal("0.003"), 1, 0)
        second.finish(accepted(taken))
    assert _spent(bench) == (Decimal("0.004"), 2, 0)
    assert AuditStore(bench.url).audit().broken == ()


def test_what_is_rolled_back_was_not_spent(bench: Bench) -> None:
    with psycopg.connect(bench.url) as connection:
        connection.execute(_CALL, {"version_id": bench.version_id, "cost": "0.5"})
        connection.rollback()
    assert _spent(bench) == (Decimal(0), 0, 0)


def test_a_corrected_and_a_deleted_call_are_counted_once(bench: Bench) -> None:
    for cost in ("0.5", "0.25", None):
        bench.db.execute(_CALL, {"version_id": bench.version_id, "cost": cost})
    assert _spent(bench) == (Decimal("0.75"), 3, 1)
    bench.db.execute("UPDATE assay.calls SET cost = 0.125 WHERE cost IS NULL")
    assert _spent(bench) == (Decimal("0.875"), 3, 0)
    bench.db.execute("UPDATE assay.calls SET version_id = version_id + 1 WHERE cost = 0.5")
    bench.db.execute("DELETE FROM assay.calls WHERE cost = 0.25")
    assert _spent(bench) == (Decimal("0.125"), 1, 0)


_CALL: Final = """
    INSERT INTO assay.calls (task_id, attempt_id, version_id, pass_number, outcome, billed, cost, recorded_at)
    VALUES (1, gen_random_uuid(), %(version_id)s, 1, 'failed', true, %(cost)s, assay.assay_now())
"""


def test_finishes_of_other_sessions_do_not_wait_for_each_other(bench: Bench) -> None:
    """A finish that has added its cost and not committed holds up no session with another stripe."""
    decided, go_on = threading.Event(), threading.Event()

    def hold(point: str) -> None:
        if point == "in_finish":
            decided.set()
            assert go_on.wait(60)

    with Station(bench, "slow", probe=hold) as slow:
        one = slow.claim_one(bench.offer("a"))
        finishing = slow.start(slow.finishes.finish([accepted(one)]))
        try:
            assert decided.wait(60)
            taken = bench.one(
                "SELECT mod(pid, 16) FROM pg_stat_activity "
                "WHERE datname = current_database() AND application_name = 'assay' AND xact_start IS NOT NULL"
            )
            for _ in range(40):
                with Station(bench, "quick") as quick:
                    task = quick.claim_one(bench.offer(secrets.token_hex(4)))
                    if quick.run(_stripe(quick)) != taken:
                        assert quick.finish(accepted(task))[0].outcome is FinishOutcome.DONE
                        break
            else:
                pytest.fail("no session with another stripe")
        finally:
            go_on.set()
        finishing.result(60)
    assert _spent(bench)[0] == _ledger(bench)


async def _stripe(station: Station) -> int:
    async with station.pool.connection() as connection:
        row = await (await connection.execute("SELECT pg_backend_pid() % 16")).fetchone()
        assert row is not None
        return int(row[0])


def test_a_database_with_calls_is_added_up_by_the_migration(
    server_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, shipped = f"old_{secrets.token_hex(6)}", migrations()
    with psycopg.connect(make_conninfo(server_url, dbname="postgres"), autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            url = make_conninfo(server_url, dbname=name)
            monkeypatch.setattr(migrate_module, "migrations", lambda: shipped[:5])
            migrate(url)
            with psycopg.connect(url, autocommit=True) as old:
                version_id = _old_calls(old)
            monkeypatch.setattr(migrate_module, "migrations", lambda: shipped)
            migrate(url)
            with psycopg.connect(url) as new:
                spend = _read(new, "SELECT day::text, cost, calls, calls_unknown FROM assay.spend ORDER BY 1")
                assert spend == [
                    ("2026-01-01", Decimal("0.75"), 2, 0), ("2026-01-02", Decimal(0), 1, 1),
                ]  # fmt: skip
                models = _read(new, "SELECT model, baseline FROM assay.version_models ORDER BY first_seen_at")
                assert models == [("m-1", True), ("m-2", False)]
                log = _read(new, "SELECT kind, detail ->> 'new' FROM assay.version_events ORDER BY event_no")
                assert log == [("model_changed", "m-2"), ("frozen", None)]
                new.execute(_CALL, {"version_id": version_id, "cost": 1})
                assert _read(new, "SELECT sum(cost) FROM assay.spend") == [(Decimal("1.75"),)]
        finally:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def _read(connection: psycopg.Connection[Any], query: str) -> list[tuple[Any, ...]]:
    return list(connection.execute(query.encode()).fetchall())


def _old_calls(old: psycopg.Connection[Any]) -> int:
    """Three calls of two days and two models, by hand, and a frozen version, before there was any log."""
    ((version_id,),) = _read(
        old,
        "INSERT INTO assay.pipeline_versions (name, pipeline_version, definition, registered_at) "
        "VALUES ('old', repeat('a', 64), '{}', now()) RETURNING version_id",
    )
    old.execute("INSERT INTO assay.releases (version_id, frozen, frozen_at, frozen_by) "
                "VALUES (%s, true, '2026-01-03', 'ann')", (version_id,))  # fmt: skip
    for at, cost, model in (("2026-01-01 00:00Z", "0.5", "m-1"), ("2026-01-01 23:59:59.9Z", "0.25", "m-2"),
                            ("2026-01-02 00:00Z", None, "m-1")):  # fmt: skip
        old.execute(
            "INSERT INTO assay.calls (task_id, attempt_id, version_id, pass_number, outcome, billed, cost, "
            "model, recorded_at) VALUES (1, gen_random_uuid(), %s, 1, 'failed', true, %s, %s, %s)",
            (version_id, cost, model, at),
        )
    return int(version_id)


# --- caps and reservations ----------------------------------------------------------------------------


def test_caps_are_set_changed_and_cleared_and_every_change_is_kept(bench: Bench) -> None:
    store = BudgetStore(bench.url)
    _cap(bench, day="5", total="50")
    _cap(bench, day="7.5")
    assert (_budget(bench).pipeline["day_cap"], _budget(bench).pipeline["total_cap"]) == (
        Decimal("7.5"),
        Decimal(50),
    )
    with pytest.raises(ConfigurationError, match="is in USD"):
        store.set(bench.name, {"day": Decimal(1)}, "EUR", "ann")
    store.set(bench.name, {"day": Decimal(1), "total": Decimal(2)}, "EUR", "bob")
    assert store.clear(bench.name, "day", "bob")
    assert not store.clear(bench.name, "day", "bob")
    assert _budget(bench).pipeline["day_cap"] is None
    changes = bench.rows(
        "SELECT kind, cap, currency, changed_by FROM assay.budget_changes ORDER BY change_id"
    )
    assert changes == [
        ("day", Decimal(5), "USD", "ann"), ("total", Decimal(50), "USD", "ann"),
        ("day", Decimal("7.5"), "USD", "ann"), ("day", Decimal(1), "EUR", "bob"),
        ("total", Decimal(2), "EUR", "bob"), ("day", None, "EUR", "bob"),
    ]  # fmt: skip
    with pytest.raises(psycopg.Error, match="not allowed"):
        bench.db.execute("DELETE FROM assay.budget_changes")
    assert AuditStore(bench.url).audit().broken == ()


def test_without_a_cap_nothing_is_written(bench: Bench) -> None:
    with Station(bench, "worker") as worker:
        standing = worker.run(_store(worker).renew(held=RESERVE, wanted=STEP, step=STEP))
        assert (standing.caps, standing.granted) == (None, RESERVE)
    assert _reservations(bench) == []


def test_a_grant_shrinks_to_what_is_left_and_is_nothing_below_a_step(bench: Bench) -> None:
    _cap(bench, total="0.1", day="10")
    with stations(bench, 2) as (one, two):
        a, b = _store(one), _store(two)
        assert one.run(a.renew(held=Decimal(0), wanted=2 * STEP, step=STEP)).granted == 2 * STEP
        standing = two.run(b.renew(held=Decimal(0), wanted=9 * STEP, step=STEP))
        assert (standing.granted, standing.reserved) == (Decimal("0.04"), 2 * STEP)
        assert two.run(b.renew(held=STEP, wanted=9 * STEP, step=STEP)).granted == STEP
        assert _budget(bench).left("total") == Decimal("0.01")
        # What cannot be given back is held whatever the caps say by now.
        _cap(bench, total="0.01")
        assert two.run(b.renew(held=STEP, wanted=STEP, step=STEP)).granted == STEP
        assert one.run(a.renew(held=Decimal(0), wanted=STEP, step=STEP)).granted == 0
        two.run(b.release())
        BudgetStore(bench.url).clear(bench.name, "total", "ann")
        BudgetStore(bench.url).clear(bench.name, "day", "ann")
        assert one.run(a.renew(held=Decimal(0), wanted=STEP, step=STEP)).caps is None
    assert _reservations(bench) == []


def test_calls_of_unknown_cost_count_at_their_versions_reserve(bench: Bench) -> None:
    _cap(bench, total="1")
    for cost in (None, None, "0.5"):
        bench.db.execute(_CALL, {"version_id": bench.version_id, "cost": cost})
    with Station(bench, "worker") as worker:
        standing = worker.run(_store(worker).renew(held=Decimal(0), wanted=Decimal(0), step=STEP))
    assert standing.spent_total == standing.spent_today == Decimal("0.52")
    budget = _budget(bench)
    assert (budget.counted, budget.versions[0]["spent"]) == (Decimal("0.52"), Decimal("0.5"))


def test_all_versions_of_a_line_share_its_caps_and_other_lines_do_not(bench: Bench) -> None:
    _cap(bench, total="1")
    second = register(bench.url, bench.name, "another model")
    bench.db.execute(_CALL, {"version_id": second, "cost": "0.75"})
    other = register(bench.url, "another line", "m")
    bench.db.execute(_CALL, {"version_id": other, "cost": "70"})
    with Station(bench, "worker") as worker:
        standing = worker.run(_store(worker).renew(held=Decimal(0), wanted=Decimal(1), step=STEP))
    assert standing.spent_total == Decimal("0.75")
    assert standing.granted == Decimal("0.25")


def test_a_new_day_is_a_new_cap(bench: Bench) -> None:
    bench.stop_clock()
    _cap(bench, day="0.5", total="0.9")
    bench.db.execute(_CALL, {"version_id": bench.version_id, "cost": "0.5"})
    with Station(bench, "worker") as worker:
        store = _store(worker)
        assert worker.run(store.renew(held=Decimal(0), wanted=Decimal(9), step=RESERVE)).granted == 0
        bench.advance(DAY)
        standing = worker.run(store.renew(held=Decimal(0), wanted=Decimal(9), step=RESERVE))
    assert (standing.spent_today, standing.spent_total) == (Decimal(0), Decimal("0.5"))
    assert standing.granted == Decimal("0.4")


def test_a_dead_workers_reservation_counts_until_it_ends(bench: Bench) -> None:
    bench.stop_clock()
    _cap(bench, total="0.06")
    with stations(bench, 2) as (dead, alive):
        dead.run(_store(dead).renew(held=STEP, wanted=STEP, step=STEP))
        store = _store(alive)
        for seconds, granted in ((0.0, 0), (SECONDS - 1, 0), (1.0, 2)):
            bench.advance(seconds)
            standing = alive.run(store.renew(held=Decimal(0), wanted=STEP * 5, step=STEP))
            assert standing.granted == granted * STEP, seconds
        assert _reservations(bench) == [("worker-1", 2 * STEP)]


def test_two_grants_at_once_are_made_one_after_the_other(bench: Bench) -> None:
    _cap(bench, total="0.03")
    with stations(bench, 2) as (one, two), psycopg.connect(bench.url) as holder:
        holder.execute(queries("budgets")["budget_lock"], {"lock_class": BUDGET_LOCKS, "name": bench.name})
        asked = [
            each.start(_store(each).renew(held=Decimal(0), wanted=STEP, step=STEP)) for each in (one, two)
        ]
        until_blocked(bench.db, 2)
        holder.rollback()
        assert sorted(each.result(60).granted for each in asked) == [0, STEP]


class UnlockedReservations(ReservationStore):
    """Grants without the lock, to show what it is for."""

    def __init__(self, *arguments: Any, **terms: Any) -> None:
        super().__init__(*arguments, **terms)
        self._sql = {**self._sql, "budget_lock": "SELECT %(lock_class)b::int4, %(name)b::text"}


def test_without_the_lock_two_workers_get_the_last_step(bench: Bench) -> None:
    """Both read before either has written: that is what the lock is for."""
    _cap(bench, total="0.03")
    with stations(bench, 2) as (one, two), psycopg.connect(bench.url) as holder:
        # Both grants wait for the row that they are about to write, after they have added up.
        for station in (one, two):
            store = _store(station)
            station.run(store.renew(held=Decimal(0), wanted=Decimal(0), step=STEP))
        holder.execute("SELECT FROM assay.spend_reservations FOR UPDATE")
        stores = [_port(UnlockedReservations, s) for s in (one, two)]
        asked = [
            s.start(store.renew(held=Decimal(0), wanted=STEP, step=STEP))
            for s, store in zip((one, two), stores, strict=True)
        ]
        until_blocked(bench.db, 2)
        holder.rollback()
        assert [each.result(60).granted for each in asked] == [STEP, STEP]


def test_only_money_that_is_spent_is_over_a_cap(bench: Bench) -> None:
    """A call that finished a moment ago is in the ledger, and still in what its worker holds."""
    _cap(bench, total="0.1")
    with Station(bench, "worker") as worker:
        worker.run(_store(worker).renew(held=Decimal(0), wanted=Decimal("0.1"), step=STEP))
        bench.db.execute(_CALL, {"version_id": bench.version_id, "cost": "0.02"})
        assert _budget(bench).left("total") == 0
        bench.db.execute(_CALL, {"version_id": bench.version_id, "cost": "0.09"})
        assert _budget(bench).left("total") == Decimal("-0.01")


# --- whole workers ------------------------------------------------------------------------------------


@dataclass
class Spender:
    """Claims as the guard allows, calls at `cost`, finishes and settles, until the guard says stop."""

    station: Station
    cost: Callable[[int], Decimal]
    store: type[ReservationStore] = ReservationStore
    made: int = 0
    seen: list[Standing] = field(default_factory=list)

    async def work(self, reserve: Decimal = RESERVE) -> str:
        bench, station = self.station.bench, self.station
        port = _port(self.store, station)
        money = SpendGuard(port, SpendTerms(reserve, "USD", first=3, drawing_seconds=60.0))
        await money.start()
        while True:
            drawn = money.take(4)
            tasks: list[ClaimedTask] = []
            if drawn:
                offers = [bench.offer(f"{station.actor}-{self.made}-{each}") for each in range(drawn)]
                claims = await station.claims.claim(bench.source_id, offers)
                tasks = [task for _, task in claims.won]
            money.claimed(drawn, tasks)
            for task in tasks:
                self.made += 1
                finish = accepted(task, self.cost(self.made))
                await station.finishes.finish([finish])
                money.settle(finish.passes.calls)
            if (stop := await money.sync()) is not None:
                await money.close()
                return stop.code
            await asyncio.sleep(0)


def test_workers_at_once_use_a_cap_up_and_never_pass_it(bench: Bench) -> None:
    """Costs vary up to the reserve of both passes; at the end not one record's worst case is left."""
    cap = Decimal("2")
    _cap(bench, total=f"{cap}")
    with stations(bench, 4) as workers:
        spenders = [Spender(w, lambda n: RESERVE * (n % 10 + 1) / 10) for w in workers]
        ended = [spender.station.start(spender.work()) for spender in spenders]
        assert {each.result(120) for each in ended} == {"spend_cap_reached"}
    assert cap - STEP < _ledger(bench) <= cap
    assert _spent(bench)[0] == _ledger(bench)
    assert sum(spender.made > 0 for spender in spenders) > 1
    assert _reservations(bench) == []
    assert AuditStore(bench.url).audit().broken == ()


class NoReservations(ReservationStore):
    """A worker that looks at what was spent and reserves nothing: what caps are without reservations."""

    async def renew(self, *, held: Decimal, wanted: Decimal, step: Decimal) -> Standing:
        standing = await super().renew(held=Decimal(0), wanted=Decimal(0), step=step)
        caps = standing.caps
        assert caps is not None
        assert caps.total is not None
        left = max(caps.total - standing.spent_total, Decimal(0))
        granted = held + min(wanted, left) // step * step
        return Standing(caps, standing.spent_today, standing.spent_total, Decimal(0), granted)


def test_without_reservations_workers_at_once_pass_the_cap(bench: Bench) -> None:
    cap = Decimal("0.03")
    _cap(bench, total=f"{cap}")
    guards = []
    with stations(bench, 3) as workers:
        for kind in (ReservationStore, NoReservations):
            rooms = []
            for worker in workers:
                port = _port(kind, worker)
                guards.append(SpendGuard(port, SpendTerms(RESERVE, "USD", first=3, drawing_seconds=60.0)))
                worker.run(guards[-1].start())
                rooms.append(worker.run(_room(guards[-1])))
            assert sum(rooms) == (1 if kind is ReservationStore else 3), kind


async def _room(money: SpendGuard) -> int:
    room = money.room()
    assert room is not None
    return room


def test_calls_above_their_reserve_are_the_one_way_past_a_cap(bench: Bench) -> None:
    _cap(bench, total="0.1")
    with Station(bench, "worker") as worker:
        spender = Spender(worker, lambda n: RESERVE * 5)
        assert worker.run(spender.work()) == "spend_cap_reached"
    left = _budget(bench).left("total")
    assert left is not None
    assert left <= 0
    assert _ledger(bench) == spender.made * RESERVE * 5


def test_a_raised_cap_lets_the_same_work_go_on(bench: Bench) -> None:
    _cap(bench, total="0.05")
    with Station(bench, "worker") as worker:
        first = Spender(worker, lambda n: RESERVE)
        assert worker.run(first.work()) == "spend_cap_reached"
        _cap(bench, total="0.1")
        second = Spender(worker, lambda n: RESERVE, made=first.made)
        assert worker.run(second.work()) == "spend_cap_reached"
    assert second.made > first.made
    assert Decimal("0.1") - STEP < _ledger(bench) <= Decimal("0.1")


def test_a_version_charges_what_its_workers_have_met(bench: Bench) -> None:
    """Never less by a worker that has met less; registering the version begins anew."""
    with stations(bench, 2) as (one, two):
        assert one.run(_store(one).raise_reserve(RESERVE)) == RESERVE
        assert one.run(_store(one).raise_reserve(5 * RESERVE)) == 5 * RESERVE
        assert two.run(_store(two).raise_reserve(2 * RESERVE)) == 5 * RESERVE
    assert bench.one("SELECT call_reserve FROM assay.pipeline_versions") == 5 * RESERVE
    register(bench.url, bench.name, "m")
    assert bench.one("SELECT call_reserve FROM assay.pipeline_versions") == RESERVE


def test_a_lost_call_with_a_long_text_is_charged_at_what_it_may_cost(bench: Bench) -> None:
    bench.stop_clock()
    per_byte = Decimal("0.000001")
    text = "a" * 100_000
    with Station(bench, "dead") as dead, Station(bench, "heir") as heir:

        async def die() -> None:
            money = SpendGuard(_store(dead), SpendTerms(RESERVE, "USD", first=4, per_byte=per_byte))
            await money.start()
            money.note_texts([text])
            await money.sync()

        dead.run(die())
        dead.claim_one(bench.offer("long", text=text))
        bench.advance(91)
        assert heir.run(_store(heir).longest_text()) >= 100_000
        assert len(heir.claim_waiting()) == 1
    charged, calls, _ = _spent(bench)
    assert (calls, charged > RESERVE, charged >= per_byte * 100_000) == (1, True, True)
    assert AuditStore(bench.url).audit().broken == ()


def test_the_longest_text_is_that_of_unfinished_tasks(bench: Bench) -> None:
    with Station(bench, "worker") as worker:
        store = _store(worker)
        assert worker.run(store.longest_text()) == 0
        done, waits = (
            worker.claim_one(bench.offer(name, text="a" * size)) for name, size in (("d", 9000), ("w", 5000))
        )
        assert worker.run(store.longest_text()) >= 9000
        worker.finish(accepted(done), parked(waits, cost=RESERVE))
        assert 5000 <= worker.run(store.longest_text()) < 6000


def test_a_killed_workers_calls_are_never_spent_twice(bench: Bench) -> None:
    """Its tasks wait until its reservation ends; then the lost calls are charged to who takes them over."""
    bench.stop_clock()
    _cap(bench, total="0.12")

    async def die(station: Station) -> None:
        port = _store(station)
        money = SpendGuard(port, SpendTerms(RESERVE, "USD", first=4, drawing_seconds=60.0))
        await money.start()
        claims = await station.claims.claim(
            bench.source_id, [bench.offer(f"d-{each}") for each in range(money.take(9))]
        )
        assert len(claims.won) == 4

    async def take_over(station: Station) -> tuple[int, Decimal]:
        port = _store(station)
        money = SpendGuard(port, SpendTerms(RESERVE, "USD", first=4, drawing_seconds=60.0))
        await money.start()
        drawn = money.take(9)
        tasks = await station.claims.claim_waiting(drawn) if drawn else []
        money.claimed(drawn, tasks)
        return len(tasks), (
            await port.renew(held=len(tasks) * 2 * RESERVE, wanted=Decimal(0), step=STEP)
        ).granted

    with stations(bench, 2) as (dead, alive):
        dead.run(die(dead))
        bench.advance(91)
        assert alive.run(take_over(alive)) == (0, Decimal(0))
        bench.advance(60)
        taken, held = alive.run(take_over(alive))
        assert (taken, held) == (4, 8 * RESERVE)
        assert _spent(bench) == (4 * RESERVE, 4, 0)
        assert _spent(bench)[0] + held <= Decimal("0.12")


def test_a_cap_set_while_workers_run_holds_them(bench: Bench) -> None:
    with Station(bench, "worker") as worker:
        spender = Spender(worker, lambda n: RESERVE)
        running = worker.start(spender.work())
        until(lambda: spender.made > 20, "some finishes")
        _cap(bench, total="0.01")
        assert running.result(60) == "spend_cap_reached"
    assert _spent(bench)[0] == spender.made * RESERVE


def test_claims_of_a_capped_line_leave_parked_work_parked(bench: Bench) -> None:
    """A stop by a cap burns nothing: parked tasks are as they were."""
    _cap(bench, total="0.02")
    with Station(bench, "worker") as worker:
        worker.finish(parked(worker.claim_one(bench.offer("r")), cost=RESERVE))

        async def look() -> str:
            port = _store(worker)
            money = SpendGuard(port, SpendTerms(RESERVE, "USD", drawing_seconds=60.0))
            await money.start()
            assert money.take(5) == 0
            stop = await money.sync()
            assert stop is not None
            return stop.code

        assert worker.run(look()) == "spend_cap_reached"
    rows = bench.rows("SELECT state::text, attempts FROM assay.annotation_tasks")
    assert rows == [("retry_scheduled", 1)]


def test_the_migrations_ship_with_the_package() -> None:
    names = {entry.name for entry in (files("assay.adapters.postgres") / "migrations").iterdir()}
    assert {"0006_budgets.sql", "0007_version_events.sql"} <= names
