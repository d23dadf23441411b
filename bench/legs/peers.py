"""Other queues on PostgreSQL, in the same rounds as the product (goal 2, the part without a broker)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from bench.ceiling_sql import LEASE_INDEX, TABLES
from bench.checks import Expected, faults
from bench.children import Spec, run_children
from bench.plan import Stand
from bench.records import write_records
from bench.report import LegReport, Table, Verdict, number, ranged
from bench.statistics import ratios, rotated, spread

PROCESSES: Final = 2
OURS: Final = f"assay, {PROCESSES} processes"
# Its documented way to go faster is a larger batch; both of these are measured, the better one counts.
PGQUEUER: Final = {f"pgqueuer, {PROCESSES} processes × batch {batch}": batch for batch in (100, 500)}
PROCRASTINATE: Final = f"procrastinate, {PROCESSES} processes × 10"
NAIVE: Final = "one record at a time"
THROUGH: Final = "pgqueuer, enqueue and then drain"
LESS: Final = {
    OURS: "everything: input read and sealed, label checked and sealed, history, calls, result, event",
    **dict.fromkeys(PGQUEUER, "drain of enqueued jobs that do nothing; done jobs are deleted and logged"),
    THROUGH: "computed from both rates: what a job costs from its arrival on",
    PROCRASTINATE: "drain of deferred jobs that do nothing; status and events stay",
    NAIVE: "the bare loop's tables and statements, two commits per record, no model, no checks",
}


@dataclass(frozen=True, slots=True)
class _Peers:
    """How many records each of them gets; the slow ones get fewer."""

    ours: int
    pgqueuer: int
    procrastinate: int
    naive: int


_FULL: Final = _Peers(50_000, 100_000, 4_000, 4_000)
_QUICK: Final = _Peers(20_000, 20_000, 1_000, 1_000)


def run(stand: Stand) -> Iterator[LegReport]:
    """All in turn, round by round."""
    plan, report = stand.plan, LegReport("peers", "Peers in the same rounds")
    counts = _QUICK if plan.quick else _FULL
    work: dict[str, Callable[[], float]] = {
        OURS: lambda: _ours(stand, counts.ours, report),
        **{name: pgqueuer(stand, counts.pgqueuer, name, report) for name in PGQUEUER},
        PROCRASTINATE: lambda: _procrastinate(stand, counts.procrastinate, report),
        NAIVE: lambda: _naive(stand, counts.naive, report),
    }
    for turn in range(plan.runs):
        report.rounds.append({})
        for name in rotated(list(work), turn):
            plan.say(f"peers, round {turn + 1} of {plan.runs}: {name}")
            report.rounds[-1][name] = work[name]()
        report.tables = [_table(report.rounds)]
        report.verdicts = _verdicts(report.rounds)
        yield report
    report.complete = True
    yield report


def _ours(stand: Stand, records: int, report: LegReport) -> float:
    half = records // PROCESSES
    specs: list[Spec] = []
    with stand.server.product_database() as database:
        for number_ in range(PROCESSES):
            file = stand.plan.work / f"peer-{number_}.jsonl"
            write_records(file, half, first=number_ * half)
            specs.append({"url": database.url, "file": str(file), "model": "at_once"})
        measured = run_children("product", specs, stand.server.pid)
        report.faults += faults(database, Expected(half * PROCESSES), OURS)
    return half * PROCESSES / measured.usage.wall


def pgqueuer(stand: Stand, jobs: int, name: str, report: LegReport) -> Callable[[], float]:
    """What measures one of PGQUEUER; it notes the rate THROUGH in the report's last round as well."""
    batch = PGQUEUER[name]

    def work() -> float:
        with stand.server.database() as database:
            filling = run_children("pgqueuer", [{"url": database.url, "enqueue": jobs}], stand.server.pid)
            database.run("VACUUM ANALYZE")
            database.run("CHECKPOINT")
            specs: list[Spec] = [{"url": database.url, "batch": batch}] * PROCESSES
            measured = run_children("pgqueuer", specs, stand.server.pid)
            left = database.count("SELECT count(*) FROM pgqueuer")
        if left or measured.total("done") != jobs:
            report.faults.append(f"{name}: {measured.total('done'):.0f} of {jobs} jobs done, {left} left")
        both = jobs / (filling.largest("wall") + measured.largest("wall"))
        report.rounds[-1][THROUGH] = max(both, report.rounds[-1].get(THROUGH, 0.0))
        return jobs / measured.largest("wall")

    return work


def _procrastinate(stand: Stand, jobs: int, report: LegReport) -> float:
    with stand.server.database() as database:
        run_children("procrastinate", [{"url": database.url, "enqueue": jobs}], stand.server.pid)
        database.run("VACUUM ANALYZE")
        database.run("CHECKPOINT")
        specs: list[Spec] = [{"url": database.url, "concurrency": 10}] * PROCESSES
        measured = run_children("procrastinate", specs, stand.server.pid)
        done = database.count("SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'")
    if done != jobs:
        report.faults.append(f"procrastinate: {done} of {jobs} jobs done")
    return jobs / measured.largest("wall")


def _naive(stand: Stand, records: int, report: LegReport) -> float:
    with stand.server.database() as database:
        database.run(TABLES)
        database.run(LEASE_INDEX)
        measured = run_children("naive", [{"url": database.url, "records": records}], stand.server.pid)
        done = database.count("SELECT count(*) FROM outbox")
    if done != records:
        report.faults.append(f"{NAIVE}: {done} of {records} done")
    return records / measured.largest("wall")


def _table(rounds: list[dict[str, float]]) -> Table:
    rows: list[tuple[str, ...]] = []
    for name, does in LESS.items():
        ratio = ratios(rounds, OURS, name)
        rows.append((name, ranged(spread(each[name] for each in rounds)),
                     number(ratio.median) if ratio else "", does))  # fmt: skip
    note = (
        "Jobs of the peers carry 400 bytes and are there before the clock starts; VACUUM ANALYZE, CHECKPOINT."
    )
    return Table("Peers", ("system", "records/s", "assay ÷ it", "what is in it"), rows, note)


def _verdicts(rounds: list[dict[str, float]]) -> list[Verdict]:
    best = max(PGQUEUER, key=lambda name: spread(each[name] for each in rounds).median)
    wanted = ((best, 1.2), (THROUGH, 2.0), (PROCRASTINATE, 30.0), (NAIVE, 50.0))
    found = []
    for name, least in wanted:
        ratio = ratios(rounds, OURS, name)
        if ratio is not None:
            found.append(Verdict(f"2. assay ÷ {name}", f"≥ {least:g}", ranged(ratio), ratio.median >= least))
    return found
