"""The product on a database that has done much already (goal 4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from bench.checks import Expected, faults
from bench.children import Measured, Spec, run_children
from bench.plan import Stand
from bench.preload import MODELS, multiply
from bench.records import write_records
from bench.report import LegReport, Table, Verdict, number, ranged
from bench.server import Database
from bench.statistics import ratios, rotated, spread

_RATE, _FINISH = 0.8, 1.3
_MILLION: Final = 1_000_000


def sizes(*, quick: bool, long: bool) -> list[int]:
    """How many records are there before the measurement."""
    return [0, 100_000] if quick else [0, _MILLION, 5 * _MILLION] if long else [0, _MILLION]


def run(stand: Stand) -> Iterator[LegReport]:
    """Each order of ids: a database per size, filled first, then measured in interleaved rounds."""
    plan = stand.plan
    report = LegReport("growth", "Growth")
    records = 8_000 if plan.quick else 30_000
    rows: list[tuple[str, ...]] = []
    present = sizes(quick=plan.quick, long=plan.long)
    for ordered in (True, False):
        order = "ordered" if ordered else "random"
        found = _Found([], [])
        with ExitStack() as stack:
            filled = {size: _filled(stand, stack, size, ordered=ordered) for size in present}
            for turn in range(plan.runs):
                plan.say(f"growth: {order} ids, round {turn + 1} of {plan.runs}")
                found.begin()
                for size in rotated(present, turn):
                    database, before = filled[size]
                    first = before + turn * records
                    measured = _measure(stand, database, first, records, ordered=ordered)
                    found.add(str(size), records, measured)
                    what = f"{size:,} records, {order} ids"
                    report.faults += faults(database, Expected(first + records), what)
                report.tables = [_table([*rows, *found.rows(order, present)])]
                yield report
        rows += found.rows(order, present)
        report.rounds += [{f"{order}:{k}": v for k, v in each.items()} for each in found.rates]
        report.verdicts += _verdicts(order, present[-1], found)
    report.complete = True
    yield report


@dataclass(slots=True)
class _Found:
    """Rates and finish times by size, one entry per round."""

    rates: list[dict[str, float]]
    finishes: list[dict[str, float]]

    def begin(self) -> None:
        self.rates.append({})
        self.finishes.append({})

    def add(self, size: str, records: int, measured: Measured) -> None:
        self.rates[-1][size] = records / measured.usage.wall
        self.finishes[-1][size] = measured.answers[0]["finish_p50"]

    def rows(self, order: str, present: Sequence[int]) -> list[tuple[str, ...]]:
        """One row per size."""
        return [self._row(order, size) for size in present]

    def _row(self, order: str, size: int) -> tuple[str, ...]:
        name = str(size)
        rate, finish = ratios(self.rates, name, "0"), ratios(self.finishes, name, "0")
        return (
            order, f"{size:,}", ranged(spread(each[name] for each in self.rates)),
            ranged(rate) if rate else "", ranged(spread(each[name] * 1e3 for each in self.finishes)),
            ranged(finish) if finish else "",
        )  # fmt: skip


def _filled(stand: Stand, stack: ExitStack, size: int, *, ordered: bool) -> tuple[Database, int]:
    stand.plan.say(f"growth: filling a database with {size:,} records")
    database = stack.enter_context(stand.server.product_database())
    return database, _fill(stand, database, size, ordered=ordered)


def _fill(stand: Stand, database: Database, size: int, *, ordered: bool) -> int:
    """Model records by the product itself, then copies of them; how many records there are."""
    file = stand.plan.work / "models.jsonl"
    write_records(file, MODELS)
    spec: Spec = {"url": database.url, "file": str(file), "model": "at_once"}
    run_children("product", [spec], stand.server.pid)
    return multiply(database, max(size // MODELS - 1, 0), ordered=ordered)


def _measure(stand: Stand, database: Database, first: int, records: int, *, ordered: bool) -> Measured:
    file = stand.plan.work / "growth.jsonl"
    write_records(file, records, first=first, ordered=ordered)
    database.run("CHECKPOINT")
    spec: Spec = {"url": database.url, "file": str(file), "model": "at_once"}
    return run_children("product", [spec], stand.server.pid)


def _table(rows: list[tuple[str, ...]]) -> Table:
    columns = ("ids", "records before", "records/s", "of empty", "finish batch p50 ms", "of empty")
    note = (
        f"“0” stands for the {MODELS} model records. CHECKPOINT and VACUUM ANALYZE before each measurement; "
        "ordered ids come in the order of the index, random ones anywhere in it."
    )
    return Table("Rate and finish time by what is there", columns, rows, note)


def _verdicts(order: str, largest: int, measured: _Found) -> list[Verdict]:
    found = []
    rate = ratios(measured.rates, str(largest), "0")
    finish = ratios(measured.finishes, str(min(largest, _MILLION)), "0")
    if rate is not None:
        found.append(Verdict(f"4. Rate at {largest:,}, {order} ids, of empty", f"≥ {_RATE}",
                             number(rate.median), rate.median >= _RATE))  # fmt: skip
    if finish is not None:
        size = min(largest, _MILLION)
        found.append(Verdict(f"4. Finish batch at {size:,}, {order} ids, of empty", f"≤ {_FINISH}",
                             number(finish.median), finish.median <= _FINISH))  # fmt: skip
    return found
