"""A run's live progress and its closing table."""

from __future__ import annotations

import os
from typing import Any

from rich.console import Group
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from assay.cli.live_screen import LiveScreen
from assay.cli.logging_setup import only_json
from assay.cli.said import say
from assay.cli.tables import console
from assay.domain.definition import Pipeline
from assay.pipeline.progress import Progress
from assay.telemetry import tell


class Screen(LiveScreen):
    """Shows a `Progress`."""

    def __init__(self, progress: Progress, *, title: str, quiet: bool) -> None:
        super().__init__(title=title, quiet=quiet, per_second=8)
        self._progress = progress
        self._most_done = 0

    def note(self, text: str) -> None:
        """Say something beside the bar, or on a line of its own where there is none."""
        super().note(text)
        if self._live is None and not self._quiet:
            say(text)

    @staticmethod
    def last_word(text: str) -> None:
        """Say something before the process ends on the spot, past whatever holds standard error now."""
        if only_json():
            say(text)
        else:
            os.write(2, f"\nassay: {text}\n".encode())

    def _tell(self) -> None:
        p = self._progress
        tell("run_progress", total=p.total, done=self._done(), accepted=p.accepted, review=p.review,
             dead=p.dead, parked=p.waiting, in_flight=p.in_flight, calls=p.calls, cost=p.cost)  # fmt: skip

    def _render(self) -> Group:
        """Three lines that never wrap: the bar with its pace, what became of the records, a note."""
        grid = Table.grid(padding=(0, 1))
        total = self._progress.total
        bar = ProgressBar(total=float(total) if total else None, completed=float(self._done()),
                          width=18, pulse=not total, style="dim", complete_style="green",
                          finished_style="green")  # fmt: skip
        pace, outcome = self._figures()
        grid.add_row(Text(self._title, style="bold"), bar, Text(pace, no_wrap=True, overflow="ellipsis"))
        lines: list[Table | Text] = [grid, Text(outcome, no_wrap=True, overflow="ellipsis")]
        if self._note:
            lines.append(Text(self._note, style="yellow", no_wrap=True, overflow="ellipsis"))
        return Group(*lines)

    def _line(self) -> str:
        return " · ".join(self._figures())

    def _done(self) -> int:
        """What is done, as far as was ever known: what another worker parks must not turn the bar back."""
        total = self._progress.total
        done = self._progress.done if total is None else min(self._progress.done, total)
        self._most_done = max(self._most_done, done)
        return self._most_done

    def _figures(self) -> tuple[str, str]:
        """Pace, and outcome of this run."""
        p = self._progress
        done = self._done()
        rate = self._rate_of(done)
        of = f"/{p.total}" if p.total is not None else ""
        pace = [f"{done}{of} done", _speed(rate), f"in flight {p.in_flight}"]
        if p.vendor is not None:
            pace.append(p.vendor)
        # While nothing is in flight the rate says nothing about the end.
        if p.total is not None and rate > 0 and done < p.total and p.in_flight:
            pace.append(f"{_duration((p.total - done) / rate)} left")
        outcome = [f"accepted {p.accepted}", f"review {p.review}", f"dead {p.dead}"]
        if p.waiting:
            worst = p.park_reasons.most_common(1)
            outcome.append(f"parked {p.waiting}" + (f" ({worst[0][0]})" if worst else ""))
        if p.isolated + p.conflicts:
            outcome.append(f"isolated {p.isolated + p.conflicts}")
        outcome.append(_money(p))
        return " · ".join(pace), " · ".join(outcome)


def _money(progress: Progress) -> str:
    count = progress.cost_unknown
    unknown = f" + {count} call{'s' if count > 1 else ''} of unknown cost" if count else ""
    return f"cost {progress.cost.quantize(progress.cost.__class__('0.0001'))}{unknown}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds + 0.5), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def closing_figures(progress: Progress, elapsed: float) -> dict[str, Any]:
    """The closing table as plain values. Cost is a decimal string; `elapsed_seconds` is wall time."""
    p = progress
    return {
        "read": p.read, "done_before": p.skipped + p.settled_before, "isolated": p.isolated,
        "conflicts": p.conflicts, "accepted": p.accepted, "review": p.review, "dead": p.dead,
        "dead_by_code": dict(p.codes), "parked_before": p.waiting_before or 0, "retries_parked": p.parked,
        "parks_by_reason": dict(p.park_reasons), "still_parked": p.waiting,
        "taken_over": p.taken_over, "lease_lost": p.lease_lost, "calls": p.calls,
        "correction_calls": p.correction_calls, "cost": str(p.cost), "calls_of_unknown_cost": p.cost_unknown,
        "elapsed_seconds": round(elapsed, 3),
    }  # fmt: skip


def closing_table(progress: Progress, pipeline: Pipeline, elapsed: float) -> None:
    """Print where every record went."""
    p = progress
    table = Table(title=f"{pipeline.name} version {pipeline.version[:12]}", show_header=False, min_width=44)
    table.add_column()
    table.add_column(justify="right")
    rows: list[tuple[str, str]] = [
        ("read in this run", str(p.read)), ("done before", str(p.skipped + p.settled_before)),
        ("accepted (auto_candidate)", str(p.accepted)), ("for review (review_pending)", str(p.review)),
        ("dead letters (quarantined)", str(p.dead)),
    ]  # fmt: skip
    rows += [(f"  {code}", str(count)) for code, count in p.codes.most_common()]
    rows += [
        ("isolated (input_schema_invalid)", str(p.isolated)), ("content conflicts", str(p.conflicts)),
        *_parked_rows(p), ("taken over from dead workers", str(p.taken_over)),
        ("leases lost", str(p.lease_lost)),
        ("calls (corrections)", f"{p.calls} ({p.correction_calls})"),
        ("cost", _money(p).removeprefix("cost ")),
        ("time", _duration(elapsed)),
        ("pace", _speed(p.settled / elapsed) if elapsed > 0 else "–"),
    ]  # fmt: skip
    for name, value in rows:
        if value != "0" or not name.startswith(("isolated", "content", "taken", "leases")):
            table.add_row(name, value)
    console().print(table)


def _parked_rows(p: Progress) -> list[tuple[str, str]]:
    """Records that wait, and how often this run had to put one off: one record may be put off many times."""
    rows = []
    if p.waiting_before:
        rows.append(("parked when this run began", str(p.waiting_before)))
    if p.parked or p.waiting:
        rows.append(("parked now (retry_scheduled)", str(p.waiting)))
    if p.parked:
        rows.append(("parks in this run, of any record", str(p.parked)))
    return rows + [(f"  {reason}", str(count)) for reason, count in p.park_reasons.most_common()]


def _speed(per_second: float) -> str:
    """Records per second, or per minute where that says more."""
    return f"{per_second:.0f}/s" if per_second >= 10 else f"{per_second * 60:.0f}/min"
