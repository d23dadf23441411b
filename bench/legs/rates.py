"""The ceiling, and the product against it (goal 1)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol, TypeVar

from bench.answers import ANSWER
from bench.ceiling_sql import LEASE_INDEX, TABLES
from bench.checks import Expected, broken, faults
from bench.children import Measured, Spec, run_children
from bench.plan import Stand
from bench.processes import Usage
from bench.records import record_id, write_records
from bench.report import LegReport, Table, Verdict, number, ranged
from bench.statistics import Spread, ratios, rotated, spread
from bench.switches import history_off

WANTED: Final = 0.40
STRETCH: Final = 0.60
_MICRO: Final = 1e6
_DISTURBED: Final = 0.05


class Disturbed(Protocol):
    """A measurement that says what others used meanwhile."""

    @property
    def usage(self) -> Usage: ...


Taken = TypeVar("Taken", bound=Disturbed)


@dataclass(frozen=True, slots=True)
class Bare:
    """One form of the bare loop."""

    driver: str
    batch: int
    lease_index: bool = True
    connections: int = 2

    @property
    def name(self) -> str:
        index = "" if self.lease_index else ", no lease index"
        return f"bare {self.driver} {self.connections} × {self.batch}{index}"


@dataclass(frozen=True, slots=True)
class Form:
    """One form of the product: what is on, which model, how many processes."""

    name: str
    vault: bool = True
    history: bool = True
    ledger: bool = True
    model: str = "at_once"
    processes: int = 1


BARE: Final = (
    Bare("psycopg", 1000),
    Bare("asyncpg", 1000),
    Bare("psycopg", 500),
    Bare("asyncpg", 500),
    Bare("psycopg", 1000, lease_index=False),
)
ALL_ON: Final = "product"
ALL_OFF: Final = "all three off"
FORMS: Final = (
    Form(ALL_ON),
    Form("vault off", vault=False),
    Form("history off", history=False),
    Form("ledger off", ledger=False),
    Form(ALL_OFF, vault=False, history=False, ledger=False),
    Form("recorded answers", model="recorded"),
    Form("two processes", processes=2),
)


@dataclass(slots=True)
class _Found:
    """Measurements by name of the form, one per round."""

    rounds: list[dict[str, float]] = field(default_factory=list)
    client: dict[str, list[float]] = field(default_factory=dict)
    server: dict[str, list[float]] = field(default_factory=dict)
    foreign: dict[str, list[float]] = field(default_factory=dict)

    def add(self, name: str, records: int, measured: Measured) -> None:
        self.rounds[-1][name] = records / measured.usage.wall
        self.client.setdefault(name, []).append(measured.total("cpu") / records * _MICRO)
        self.server.setdefault(name, []).append(measured.usage.server_cpu / records * _MICRO)
        self.foreign.setdefault(name, []).append(measured.usage.foreign)

    def rate(self, name: str) -> Spread:
        return spread(each[name] for each in self.rounds if name in each)

    @staticmethod
    def cpu(name: str, side: dict[str, list[float]]) -> float:
        """The median of one side's µs per record."""
        return spread(side[name]).median

    def per_cpu_second(self, name: str) -> float:
        """What a second of one core yields, whoever else uses the machine."""
        return _MICRO / (self.cpu(name, self.client) + self.cpu(name, self.server))

    @property
    def names(self) -> list[str]:
        return list(self.client)


def run(stand: Stand) -> Iterator[LegReport]:
    """Yields the report after every round: what an interruption leaves is what was measured."""
    plan = stand.plan
    records, bare_records = (20_000, 50_000) if plan.quick else (100_000, 200_000)
    report = LegReport("rates", "Ceiling, and the product against it")
    found = _Found()
    bare = {each.name: each for each in (BARE[:2] + BARE[4:] if plan.quick else BARE)}
    forms = {each.name: each for each in FORMS}
    _write_files(stand, records)
    for turn in range(plan.runs):
        found.rounds.append({})
        for name in rotated([*bare, *forms], turn):
            plan.say(f"rates, round {turn + 1} of {plan.runs}: {name}")
            if name in bare:
                work = partial(bare_loop, stand, bare[name], bare_records, report)
                found.add(name, bare_records, calm(plan.tries, work))
            else:
                work = partial(_product, stand, forms[name], records, report)
                found.add(name, records, calm(plan.tries, work))
        _conclude(report, found, list(bare), records)
        yield report
    report.complete = True
    yield report


def calm(tries: int, work: Callable[[], Taken]) -> Taken:
    """Measure again while others use the machine; the least disturbed of all tries counts."""
    best = work()
    for _ in range(tries - 1):
        if best.usage.foreign <= _DISTURBED:
            break
        best = min(best, work(), key=lambda taken: taken.usage.foreign)
    return best


def _write_files(stand: Stand, records: int) -> None:
    half = records // 2
    write_records(stand.plan.work / "all.jsonl", records)
    write_records(stand.plan.work / "first.jsonl", half)
    write_records(stand.plan.work / "second.jsonl", records - half, first=half)
    _write_answers(stand, records)


def _write_answers(stand: Stand, records: int) -> None:
    with (stand.plan.work / "answers.jsonl").open("w", encoding="utf-8") as file:
        for n in range(records):
            file.write(json.dumps({"record_id": record_id(n, ordered=True), "answer": ANSWER}) + "\n")


def bare_loop(stand: Stand, bare: Bare, records: int, report: LegReport) -> Measured:
    """Measure one form of the bare loop on an empty database."""
    with stand.server.database() as database:
        database.run(TABLES)
        if bare.lease_index:
            database.run(LEASE_INDEX)
        spec: Spec = {
            "url": database.url, "driver": bare.driver, "connections": bare.connections,
            "batch": bare.batch, "records": records,
        }  # fmt: skip
        measured = run_children("ceiling", [spec], stand.server.pid)
        finished = database.count("SELECT count(*) FROM task WHERE status = 2")
        events = database.count("SELECT count(*) FROM outbox")
    if not finished == events == records == measured.total("finished"):
        report.faults.append(f"{bare.name}: {finished} finished and {events} events of {records}")
    return measured


def _product(stand: Stand, form: Form, records: int, report: LegReport) -> Measured:
    work = stand.plan.work
    files = ["all.jsonl"] if form.processes == 1 else ["first.jsonl", "second.jsonl"]
    model = form.model if form.model != "recorded" else f"recorded:{work / 'answers.jsonl'}#answer"
    with stand.server.product_database() as database:
        if not form.history:
            history_off(database)
        specs: list[Spec] = [
            {"url": database.url, "file": str(work / file), "model": model, "vault": form.vault,
             "ledger": form.ledger}
            for file in files
        ]  # fmt: skip
        measured = run_children("product", specs, stand.server.pid)
        expected = Expected(records, history=form.history, ledger=form.ledger)
        report.faults += faults(database, expected, form.name)
        if form.history and form.ledger:
            report.faults += broken(database, form.name)
    return measured


def _conclude(report: LegReport, found: _Found, bare: list[str], records: int) -> None:
    ceiling = max((name for name in bare if "no lease index" not in name), key=lambda n: found.rate(n).median)
    report.rounds = found.rounds
    report.tables = [_rates(found, ceiling), _costs(found)]
    against = ratios(found.rounds, ALL_ON, ceiling)
    two = ratios(found.rounds, "two processes", ceiling)
    report.verdicts = []
    for name, ratio in (("one process", against), ("two processes", two)):
        if ratio is not None:
            report.verdicts.append(
                Verdict(
                    f"1. End to end, {name}, of the ceiling", f"≥ {WANTED:.2f} (stretch {STRETCH:.2f})",
                    ranged(ratio), ratio.median >= WANTED,
                )
            )  # fmt: skip
    cpu = spread(found.client[ALL_ON]).median
    report.verdicts.append(
        Verdict("5. Python per record, everything on", "≤ 60 µs", f"{cpu:.0f} µs", cpu <= 60)
    )
    report.figures = {"ceiling": ceiling, "records": records}


def _rates(found: _Found, ceiling: str) -> Table:
    rows: list[tuple[str, ...]] = []
    for name in found.names:
        ratio = ratios(found.rounds, name, ceiling)
        rows.append((
            name, ranged(found.rate(name)), number(ratio.median) if ratio else "",
            number(found.cpu(name, found.client)), number(found.cpu(name, found.server)),
            number(found.per_cpu_second(name)),
            f"{max(found.foreign[name]):.0%}",
        ))  # fmt: skip
    columns = ("", "records/s", "of the ceiling", "Python µs", "PostgreSQL µs",
               "records per CPU second", "foreign CPU, most")  # fmt: skip
    return Table("Rates", columns, rows, f"The ceiling is “{ceiling}”. µs are CPU time per record.")


def _costs(found: _Found) -> Table:
    """What each part costs: the difference to the form without it, round by round."""
    rows: list[tuple[str, ...]] = []
    for name in ("vault off", "history off", "ledger off", ALL_OFF):
        ratio = ratios(found.rounds, name, ALL_ON)
        if ratio is None:
            continue
        client = spread(found.client[ALL_ON]).median - spread(found.client[name]).median
        server = spread(found.server[ALL_ON]).median - spread(found.server[name]).median
        wall = spread(_MICRO / each[ALL_ON] - _MICRO / each[name] for each in found.rounds if name in each)
        what = "all three" if name == ALL_OFF else name.removesuffix(" off")
        rows.append((what, ranged(wall), number(client), number(server), number(ratio.median)))
    columns = ("", "wall µs per record", "Python µs", "PostgreSQL µs", "rate without ÷ with")
    return Table("What vault, history and ledger cost", columns, rows)
