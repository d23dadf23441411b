"""What one call to a vendor costs, by client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bench.children import Spec, run_children
from bench.plan import Stand
from bench.report import LegReport, Table, number, ranged
from bench.statistics import ratios, rotated, spread
from bench.tiny_vendor import running_tiny_vendor

AT_ONCE: Final = 200
OURS: Final = "assay"
# Calls in a run; the slow clients make fewer, so that the runs take about as long.
CALLS: Final = {
    OURS: 20_000, "aiohttp, bare": 20_000, "openai SDK": 3_000, "anthropic SDK": 3_000, "pydantic-ai": 2_000,
}  # fmt: skip


def run(stand: Stand) -> Iterator[LegReport]:
    """All clients in turn against one fixed answer, round by round."""
    plan = stand.plan
    report = LegReport("calls", "Provider calls per core")
    rates: list[dict[str, float]] = []
    cpus: list[dict[str, float]] = []
    with running_tiny_vendor() as (address, pid):
        for turn in range(plan.runs):
            rates.append({})
            cpus.append({})
            for name in rotated(list(CALLS), turn):
                plan.say(f"calls, round {turn + 1} of {plan.runs}: {name}")
                calls = CALLS[name] // (4 if plan.quick else 1)
                spec: Spec = {"client": name, "address": address, "calls": calls, "at_once": AT_ONCE}
                answer = run_children("calls", [spec], stand.server.pid, (pid,)).answers[0]
                rates[-1][name] = calls / answer["wall"]
                cpus[-1][name] = answer["cpu"] / calls * 1e6
                if answer["right"] != calls:
                    report.faults.append(f"{name}: {answer['right']:.0f} right answers of {calls}")
            report.tables = [_table(rates, cpus)]
            report.rounds = cpus
            yield report
    report.complete = True
    yield report


def _table(rates: list[dict[str, float]], cpus: list[dict[str, float]]) -> Table:
    rows: list[tuple[str, ...]] = []
    for name in CALLS:
        ratio = ratios(cpus, name, OURS)
        cpu = spread(each[name] for each in cpus)
        rate = spread(each[name] for each in rates)
        rows.append((name, ranged(cpu), number(1e6 / cpu.median), ranged(rate),
                     number(ratio.median) if ratio else ""))  # fmt: skip
    columns = ("client", "CPU µs per call", "calls/s per core", "calls/s here", "× assay")
    note = f"{AT_ONCE} at once, about 1 KB of prompt and a schema; the vendor has one fixed answer."
    return Table("Calls", columns, rows, note)
