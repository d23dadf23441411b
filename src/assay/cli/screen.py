"""A run's live progress and its closing table."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Any, Final, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from assay.cli.tables import console
from assay.domain.definition import Pipeline
from assay.pipeline.progress import Progress

_PLAIN_EVERY_SECONDS: Final = 5.0
_RATE_WINDOW_SECONDS: Final = 10.0


class Screen:
    """Shows a `Progress` on standard error: live on a terminal, a line every five seconds elsewhere."""

    def __init__(self, progress: Progress, *, title: str, quiet: bool) -> None:
        self._progress = progress
        self._title = title
        self._quiet = quiet
        self._console = Console(stderr=True)
        self._started = time.monotonic()
        self._ended: float | None = None
        self._note = ""
        self._most_done = 0
        self._samples: list[tuple[float, int]] = []
        self._live: Live | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def elapsed(self) -> float:
        """Seconds from start to end (to now while it runs)."""
        return (self._ended or time.monotonic()) - self._started

    def note(self, text: str) -> None:
        """Say something beside the bar."""
        self._note = text
        if self._live is None and not self._quiet:
            self._console.print(f"assay: {text}", highlight=False)

    def __enter__(self) -> Self:
        if self._quiet:
            return self
        if self._console.is_terminal:
            self._live = Live(get_renderable=self._render, console=self._console, refresh_per_second=8)
            self._live.start()
        else:
            self._thread = threading.Thread(target=self._print_lines, name="assay-progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended = time.monotonic()
        self._stop.set()
        if self._live is not None:
            self._live.stop()
        if self._thread is not None:
            self._thread.join()

    def _print_lines(self) -> None:
        while not self._stop.wait(_PLAIN_EVERY_SECONDS):
            sys.stderr.write(f"{self._title}: {' · '.join(self._figures())}\n")
            sys.stderr.flush()

    def _render(self) -> Group:
        """Three lines that never wrap: the bar with its pace, what became of the records, a note."""
        grid = Table.grid(padding=(0, 1))
        total = self._progress.total
        bar = ProgressBar(total=float(total) if total else None, completed=float(self._done()),
                          width=24, pulse=not total, style="dim", complete_style="green",
                          finished_style="green")  # fmt: skip
        pace, outcome = self._figures()
        grid.add_row(Text(self._title, style="bold"), bar, Text(pace, no_wrap=True, overflow="ellipsis"))
        lines: list[Table | Text] = [grid, Text(outcome, no_wrap=True, overflow="ellipsis")]
        if self._note:
            lines.append(Text(self._note, style="yellow", no_wrap=True, overflow="ellipsis"))
        return Group(*lines)

    def _rate(self) -> float:
        now, done = time.monotonic(), self._done()
        self._samples.append((now, done))
        while self._samples and now - self._samples[0][0] > _RATE_WINDOW_SECONDS:
            self._samples.pop(0)
        then, before = self._samples[0]
        return (done - before) / (now - then) if now > then else 0.0

    def _done(self) -> int:
        """What is done, as far as was ever known: a record parked a moment ago must not turn the bar back."""
        total = self._progress.total
        done = self._progress.done if total is None else min(self._progress.done, total)
        self._most_done = max(self._most_done, done)
        return self._most_done

    def _figures(self) -> tuple[str, str]:
        """Pace, and outcome of this run."""
        p = self._progress
        rate = self._rate()
        done = self._done()
        of = f"/{p.total}" if p.total is not None else ""
        pace = [f"{done}{of}", _speed(rate), f"in flight {p.in_flight}"]
        if p.vendor is not None:
            pace.append(p.vendor)
        if p.total is not None and rate > 0 and done < p.total:
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
        "dead_by_code": dict(p.codes), "retries_parked": p.parked, "still_parked": p.waiting,
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
    parks = [(f"  {reason}", str(count)) for reason, count in p.park_reasons.most_common()]
    rows += [
        ("isolated (input_schema_invalid)", str(p.isolated)), ("content conflicts", str(p.conflicts)),
        ("retries parked", str(p.parked)), *parks, ("taken over from dead workers", str(p.taken_over)),
        ("leases lost", str(p.lease_lost)),
        ("calls (corrections)", f"{p.calls} ({p.correction_calls})"),
        ("cost", _money(p).removeprefix("cost ")),
        ("time", _duration(elapsed)),
        ("pace", _speed(max(p.done - p.skipped, 0) / elapsed) if elapsed > 0 else "–"),
    ]  # fmt: skip
    for name, value in rows:
        if value != "0" or not name.startswith(("isolated", "content", "retries", "taken", "leases")):
            table.add_row(name, value)
    console().print(table)


def _speed(per_second: float) -> str:
    """Records per second, or per minute where that says more."""
    return f"{per_second:.0f}/s" if per_second >= 10 else f"{per_second * 60:.0f}/min"
