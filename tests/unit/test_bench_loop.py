"""The whole loop's report, and the processes that it is measured with."""

from __future__ import annotations

import subprocess
import sys

import pytest
from bench.children import ChildFailed
from bench.crew import Role, crew
from bench.legs.loop_tables import LoopFound, conclude
from bench.legs.peers import PGQUEUER, THROUGH
from bench.loop_forms import BARE, FASTSTREAM, NAIVE, OURS, LoopMeasured
from bench.processes import Usage
from bench.report import LegReport

CEILINGS = ["bare psycopg 2 × 1000", "bare asyncpg 2 × 1000"]


def _measured(rate: float, *, publisher: bool) -> LoopMeasured:
    cpu = {"worker": 60.0, "PostgreSQL": 30.0, "broker": 10.0} | ({"publisher": 25.0} if publisher else {})
    return LoopMeasured(rate, cpu, dict.fromkeys(cpu, 50e6), 4000.0, Usage(1.0, 1.0, 0.02))


def _report() -> LegReport:
    report = LegReport("loop", "Loop")
    best, other = reversed(PGQUEUER)
    rates = {OURS.name: 20_000.0, BARE.name: 25_000.0, NAIVE.name: 500.0, FASTSTREAM.name: 900.0}
    for drift in (1.0, 2.0):
        others = {
            CEILINGS[0]: 30_000.0,
            CEILINGS[1]: 40_000.0,
            best: 16_000.0,
            other: 9_000.0,
            THROUGH: 8_000.0,
        }
        report.rounds.append({name: rate * drift for name, rate in (rates | others).items()})
    found = LoopFound(report.rounds)
    for form in (OURS, BARE, NAIVE, FASTSTREAM):
        for each in report.rounds:
            found.add(form.name, _measured(each[form.name], publisher=form.publisher is not None))
    conclude(report, found, CEILINGS)
    return report


def test_goals_are_ratios_of_one_round() -> None:
    verdicts = {each.goal: (each.found, each.word) for each in _report().verdicts}

    assert verdicts["1. Kafka to Kafka, assay, 2 workers + publisher, of the ceiling"] == (
        "0.50 [0.50–0.50]", "pass",
    )  # fmt: skip
    assert verdicts[f"2. Kafka to Kafka ÷ {FASTSTREAM.name}"][1] == "pass"
    assert verdicts[f"2. Kafka to Kafka ÷ {NAIVE.name}"] == ("40.0 [40.0–40.0]", "FAIL")
    assert verdicts[f"2. Kafka to Kafka ÷ {list(PGQUEUER)[-1]}"][1] == "pass"


def test_the_ratio_to_the_bare_loop_is_that_of_the_same_shape() -> None:
    rates, cpu, memory = _report().tables

    ours = next(row for row in rates.rows if row[0] == OURS.name)
    assert dict(zip(rates.columns, ours, strict=True))["of the bare loop"] == "0.80"
    assert next(row for row in cpu.rows if row[0] == NAIVE.name)[1:] == (
        "60.0", "", "30.0", "10.0", "100", "10,000",
    )  # fmt: skip
    assert next(row for row in memory.rows if row[0] == OURS.name)[1:] == ("50.0",) * 4


def test_a_member_that_cannot_begin_ends_the_crew() -> None:
    role = Role("publisher", "bare-publisher", {"records": 1})  # it is not told where the broker is

    with pytest.raises(ChildFailed, match="publisher did not say “ready”"), crew([role], 60.0):
        pass


def test_a_failure_in_the_background_ends_the_process() -> None:
    script = (
        "import sys\n"
        "from bench.background import Background\n"
        "async def main(): raise LookupError('gone')\n"
        "Background(main).start()\n"
        "sys.stdin.readline()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        told = process.stderr.read() if process.stderr is not None else ""

        assert process.wait(30) == 1
    assert "LookupError: gone" in told
