"""`python -m bench [LEG…]`: measure, check, report."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from bench.children import ChildFailed
from bench.environment import environment, load_average, product_digest
from bench.legs import calls, footprint, growth, latency, loop, peers, rates
from bench.plan import Plan, Stand
from bench.report import LegReport, Value, document, write
from bench.server import SETTINGS, running_server

LEGS: Final = {
    "rates": rates.run,
    "latency": latency.run,
    "growth": growth.run,
    "footprint": footprint.run,
    "calls": calls.run,
    "peers": peers.run,
    "loop": loop.run,
}
RESULTS: Final = Path(__file__).parent / "results"


def main(arguments: list[str] | None = None) -> int:
    """Run the legs that were asked for; 1 when a run itself was wrong, 130 after an interruption."""
    options = _parser().parse_args(arguments)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    folder = options.output or RESULTS / stamp
    reports: dict[str, LegReport] = {}
    where: dict[str, Value] = {}
    code = 0
    digest = product_digest()
    try:
        _measure(options, folder, where, reports)
    except KeyboardInterrupt:
        code = 130
    where["load average after"] = load_average()
    if changed := product_digest() != digest:
        where["the product's files"] = "changed during the run: run again"
    page = write(folder, where, list(reports.values()))
    print(document(where, list(reports.values())))
    print(f"bench: written to {page}", file=sys.stderr)
    wrong = changed or any(report.faults for report in reports.values())
    return code or int(wrong)


def _measure(
    options: argparse.Namespace, folder: Path, where: dict[str, Value], reports: dict[str, LegReport]
) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="assay-bench-work-") as work,
        running_server(options.server) as server,
    ):
        with server.database() as database:
            where.update(environment(database, options.server))
        runs = options.runs or (1 if options.quick else 3)
        tries = options.tries or (1 if options.quick else 3)
        stand = Stand(Plan(options.quick, options.long, runs, tries, folder, Path(work), _say), server)
        for name in options.legs or LEGS:
            begun = time.monotonic()
            report = LegReport(name, name)
            try:
                for report in LEGS[name](stand):
                    reports[name] = report
                    write(folder, where, list(reports.values()))
            except ChildFailed as failure:
                report.faults.append(str(failure))
                reports[name] = report
            _say(f"{name}: done in {time.monotonic() - begun:.0f} s")


def _say(told: str) -> None:
    print(f"bench: {told}", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "legs",
        nargs="*",
        metavar="LEG",
        choices=[*LEGS, []],
        help=f"of {', '.join(LEGS)}; all when none is named",
    )
    parser.add_argument("--quick", action="store_true", help="less of everything; a few minutes")
    parser.add_argument("--long", action="store_true", help="also the legs that take many minutes")
    parser.add_argument("--runs", type=int, help="rounds of interleaved runs (3; 1 when quick)")
    parser.add_argument(
        "--tries", type=int, help="most tries of a measurement that others disturbed (3; 1 when quick)"
    )
    parser.add_argument(
        "--output", type=Path, metavar="DIR", help="where the report goes (bench/results/TIME)"
    )
    parser.add_argument("--server", choices=SETTINGS, default="tuned", help="settings of PostgreSQL")
    return parser


if __name__ == "__main__":
    sys.exit(main())
