"""What the loop leg found, as tables and verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from bench.legs.peers import PGQUEUER, THROUGH
from bench.legs.rates import STRETCH, WANTED
from bench.loop_forms import (
    BARE,
    BARE_ONE,
    BROKER,
    FASTSTREAM,
    NAIVE,
    OURS,
    OURS_ONE,
    POSTGRESQL,
    PUBLISHER,
    WORKER,
    LoopMeasured,
)
from bench.report import LegReport, Table, Verdict, number, ranged
from bench.statistics import Spread, ratios, spread

_MEGA: Final = 1e6
_PROCESSES: Final = (WORKER, PUBLISHER, POSTGRESQL, BROKER)
_FORMS: Final = tuple(form.name for form in (OURS, OURS_ONE, BARE, BARE_ONE, FASTSTREAM, NAIVE))
# The bare loop of the same shape.
_SAME_SHAPE: Final = {OURS.name: BARE.name, OURS_ONE.name: BARE_ONE.name}
_LESS: Final = {
    OURS.name: "everything: text and label sealed, label checked, history, calls, result, event, receipt",
    OURS_ONE.name: "the same",
    BARE.name: "batches of up to 1,000: input and label checked, two statements, delivered events deleted",
    BARE_ONE.name: "the same",
    FASTSTREAM.name: "per message a claim, a finish with its event, the event sent; commits what it received",
    NAIVE.name: "per message a claim, a finish, the event sent and deleted, a commit at the broker",
    THROUGH: "computed from both rates: what a job costs from its arrival on; no Kafka",
    **dict.fromkeys(PGQUEUER, "drain of enqueued jobs that do nothing; no Kafka"),
}
_RATES_NOTE: Final = (
    "From the first read to the last acknowledged event; the input is at the broker before. Groups have "
    "formed by then, FastStream's clock starts at its first message, the bare loop is given its partitions. "
    "The ceiling is the better of the two bare database loops."
)
_CPU_NOTE: Final = (
    "CPU time up to the last acknowledged event, of both workers together. What publishes by itself has no "
    "publisher."
)
_MEMORY_NOTE: Final = (
    "The largest resident size; of two workers the larger one; of PostgreSQL the largest sum over its "
    "processes, shared memory counted once: its buffers fill up to their 1 GB in the course of the leg. The "
    "broker keeps all records of the run in memory."
)


@dataclass(slots=True)
class LoopFound:
    """Rates by name, one dictionary per round; and all else that was measured, by form."""

    rounds: list[dict[str, float]]
    forms: dict[str, list[LoopMeasured]] = field(default_factory=dict)

    def add(self, name: str, measured: LoopMeasured) -> None:
        """One more run of a form."""
        self.forms.setdefault(name, []).append(measured)

    def rate(self, name: str) -> Spread:
        """Records per second; raises `ValueError` for what was not measured."""
        return spread(each[name] for each in self.rounds if name in each)

    def names(self, wanted: Sequence[str]) -> list[str]:
        """Those of them that were measured."""
        return [name for name in wanted if any(name in each for each in self.rounds)]


def conclude(report: LegReport, found: LoopFound, ceilings: Sequence[str]) -> None:
    """Write the tables, verdicts and figures of the rounds so far into the report."""
    ceiling = max(ceilings, key=lambda name: found.rate(name).median)
    report.tables = [_rates(found, ceiling, ceilings), _cpu(found), _memory(found)]
    report.verdicts = _verdicts(found, ceiling)
    report.figures = {"ceiling": ceiling}
    for name, runs in found.forms.items():
        report.figures[f"{name}: WAL B"] = spread(each.wal for each in runs).median
        report.figures |= {f"{name}: {who} µs": us for who, us in _median(runs, "cpu").items()}
        report.figures |= {f"{name}: {who} bytes": size for who, size in _median(runs, "memory").items()}


def _rates(found: LoopFound, ceiling: str, ceilings: Sequence[str]) -> Table:
    rows: list[tuple[str, ...]] = []
    for name in [*found.names([*_FORMS, *PGQUEUER, THROUGH]), *ceilings]:
        runs = found.forms.get(name, [])
        rows.append((
            name, ranged(found.rate(name)), _ratio(found.rounds, name, ceiling),
            _ratio(found.rounds, name, _SAME_SHAPE.get(name)), _ratio(found.rounds, OURS.name, name),
            number(spread(each.wal for each in runs).median) if runs else "",
            f"{max(each.usage.foreign for each in runs):.0%}" if runs else "",
            _LESS.get(name, "claim and finish alone; no Kafka"),
        ))  # fmt: skip
    columns = ("", "records/s", "of the ceiling", "of the bare loop", f"{OURS.name} ÷ it", "WAL bytes/record",
               "foreign CPU, most", "what is in it")  # fmt: skip
    return Table("Rates", columns, rows, _RATES_NOTE)


def _ratio(rounds: Sequence[Mapping[str, float]], above: str, below: str | None) -> str:
    ratio = ratios(rounds, above, below) if below is not None else None
    return number(ratio.median) if ratio is not None else ""


def _median(runs: Sequence[LoopMeasured], of: str) -> dict[str, float]:
    """By process, the median of the runs."""
    figures = [each.cpu if of == "cpu" else each.memory for each in runs]
    return {who: spread(each[who] for each in figures).median for who in _PROCESSES if who in figures[0]}


def _cpu(found: LoopFound) -> Table:
    rows: list[tuple[str, ...]] = []
    for name in found.names(_FORMS):
        median = _median(found.forms[name], "cpu")
        cells = [number(median[who]) if who in median else "" for who in _PROCESSES]
        whole = sum(median.values())
        rows.append((name, *cells, number(whole), number(_MEGA / whole)))
    columns = ("", *_PROCESSES, "all", "records per CPU second")
    return Table("CPU µs per record", columns, rows, _CPU_NOTE)


def _memory(found: LoopFound) -> Table:
    rows: list[tuple[str, ...]] = []
    for name in found.names(_FORMS):
        median = _median(found.forms[name], "memory")
        rows.append((name, *(number(median[who] / _MEGA) if who in median else "" for who in _PROCESSES)))
    return Table("Memory at its peak, MB", ("", *_PROCESSES), rows, _MEMORY_NOTE)


def _verdicts(found: LoopFound, ceiling: str) -> list[Verdict]:
    verdicts = []
    for form in (OURS, OURS_ONE):
        ratio = ratios(found.rounds, form.name, ceiling)
        if ratio is not None:
            verdicts.append(
                Verdict(
                    f"1. Kafka to Kafka, {form.name}, of the ceiling",
                    f"≥ {WANTED:.2f} (stretch {STRETCH:.2f})", ranged(ratio), ratio.median >= WANTED,
                )
            )  # fmt: skip
    best = max(found.names(list(PGQUEUER)), key=lambda name: found.rate(name).median)
    for name, least in ((FASTSTREAM.name, 20.0), (NAIVE.name, 50.0), (best, 1.2), (THROUGH, 2.0)):
        ratio = ratios(found.rounds, OURS.name, name)
        if ratio is not None:
            verdicts.append(
                Verdict(f"2. Kafka to Kafka ÷ {name}", f"≥ {least:g}", ranged(ratio), ratio.median >= least)
            )
    return verdicts
