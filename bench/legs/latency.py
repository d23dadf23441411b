"""Many calls in flight at one second each (goal 3)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from bench.checks import Expected, broken, faults
from bench.children import Measured, Spec, run_children
from bench.plan import Stand
from bench.records import write_records
from bench.report import LegReport, Table, Verdict, number
from bench.vendor import running_vendor

SECONDS: Final = 1.0
IN_FLIGHT: Final = 4000
_SHARE, _RSS, _LAG = 0.97, 300e6, 0.100


@dataclass(frozen=True, slots=True)
class Level:
    """So many calls at once, for so long, with the model in the process or behind HTTP."""

    in_flight: int
    seconds: float
    http: bool = False

    @property
    def records(self) -> int:
        return int(self.in_flight * self.seconds / SECONDS)

    @property
    def name(self) -> str:
        return f"{self.in_flight:,}{' over HTTP' if self.http else ''}"


def levels(*, quick: bool, long: bool) -> list[Level]:
    """The levels of a run; the one that the goal speaks of comes first."""
    seconds = 8.0 if quick else 600.0 if long else 60.0
    found = [Level(IN_FLIGHT, seconds), Level(IN_FLIGHT, min(seconds, 60.0), http=True)]
    if not quick:
        found += [Level(1000, 60.0), Level(8000, 60.0)]
    return found


def run(stand: Stand) -> Iterator[LegReport]:
    """One run per level: it is long, and its share of the ideal hardly depends on the machine."""
    report = LegReport("latency", "In flight at 1.0 s per call")
    rows: list[tuple[str, ...]] = []
    columns = ("in flight", "calls/s, steady", "of the ideal", "peak RSS MB", "loop lag p50 ms", "p99 ms",
               "finish p50 ms", "renewal p50 ms", "CPU of 2 cores", "foreign CPU")  # fmt: skip
    note = (
        "Leases of 9 s, renewed every 3 s. Steady: from two seconds after the first call to the begin of the "
        "last one. Over HTTP the practice vendor, on the same cores, is part of what limits it."
    )
    for level in levels(quick=stand.plan.quick, long=stand.plan.long):
        stand.plan.say(f"latency: {level.name} in flight, {level.seconds:.0f} s")
        measured = _measure(stand, level, report)
        rows.append(_row(level, measured))
        if level.in_flight == IN_FLIGHT and not level.http:
            report.verdicts = _verdicts(level, measured)
        report.rounds.append({"in_flight": float(level.in_flight), "http": float(level.http),
                              **measured.answers[0]})  # fmt: skip
        report.tables = [Table("In flight", columns, rows, note)]
        yield report
    report.complete = True
    yield report


def _measure(stand: Stand, level: Level, report: LegReport) -> Measured:
    file = stand.plan.work / "latency.jsonl"
    write_records(file, level.records)

    def spec(url: str, model: str) -> Spec:
        return {"url": url, "model": model, "file": str(file), "concurrency": level.in_flight, "lease": 9.0}

    with stand.server.product_database() as database:
        if level.http:
            with running_vendor(file, SECONDS) as vendor:
                told = spec(database.url, vendor.address)
                measured = run_children("product", [told], stand.server.pid, (vendor.pid,))
        else:
            told = spec(database.url, f"after:{SECONDS}")
            measured = run_children("product", [told], stand.server.pid)
        expected = Expected(level.records, accepted=not level.http)
        report.faults += faults(database, expected, f"{level.name} in flight")
        report.faults += broken(database, f"{level.name} in flight")
    return measured


def _rate(level: Level, measured: Measured) -> float:
    """The steady rate; over HTTP the model cannot say, and the ramps at both ends are in the rate."""
    return measured.answers[0].get("steady_rate") or level.records / measured.usage.wall


def _row(level: Level, measured: Measured) -> tuple[str, ...]:
    answer, usage = measured.answers[0], measured.usage
    rate = _rate(level, measured)
    cpu = (answer["cpu"] + usage.server_cpu) / usage.wall / 2
    return (
        level.name, number(rate), f"{rate * SECONDS / level.in_flight:.1%}",
        number(answer["peak_rss"] / 1e6), number(answer["lag_p50"] * 1e3), number(answer["lag_p99"] * 1e3),
        number(answer["finish_p50"] * 1e3), number(answer["renew_p50"] * 1e3), f"{cpu:.0%}",
        f"{usage.foreign:.0%}",
    )  # fmt: skip


def _verdicts(level: Level, measured: Measured) -> list[Verdict]:
    answer = measured.answers[0]
    share = _rate(level, measured) * SECONDS / level.in_flight
    rss, lag = answer["peak_rss"], answer["lag_p99"]
    return [
        Verdict("3. 4,000 in flight at 1.0 s, of the ideal", "≥ 97 %", f"{share:.1%}", share >= _SHARE),
        Verdict("3. its memory (RSS, peak)", "≤ 300 MB", f"{rss / 1e6:.0f} MB", rss <= _RSS),
        Verdict("3. its loop lag, p99", "≤ 100 ms", f"{lag * 1e3:.0f} ms", lag <= _LAG),
    ]
