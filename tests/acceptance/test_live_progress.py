"""Progress of a run: figures that grow, never exceed the whole and never count a parked record as done."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import pty
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from assay.vendor.settings import FaultShares
from labelling_project import ASSAY, PATIENCE_SECONDS, Project
from practice_runs import practising, run_tickets, ticket_project

COUNT: Final = 120
_FIGURES: Final = re.compile(rb"(\d+)/(\d+) done \xc2\xb7 \d+/\w+ \xc2\xb7 in flight (\d+)")
_OUTCOMES: Final = re.compile(
    rb"(\d+)/\d+ done .*?accepted (\d+) \xc2\xb7 review (\d+) \xc2\xb7 dead (\d+)", re.DOTALL
)


@dataclass(slots=True)
class Shown:
    """A run whose error output is a terminal, and all that it wrote there."""

    process: subprocess.Popen[bytes]
    written: bytearray

    def counts(self) -> list[tuple[int, int]]:
        """Done and total of every picture, in order."""
        return [(int(done), int(total)) for done, total, _ in _FIGURES.findall(self.written)]

    def too_early(self) -> list[tuple[int, int]]:
        """Pictures of a first run that show more records as done than were settled."""
        found = [tuple(map(int, picture)) for picture in _OUTCOMES.findall(self.written)]
        assert found
        return [(done, sum(settled)) for done, *settled in found if done > sum(settled)]


@contextmanager
def on_a_terminal(project: Project, *arguments: str) -> Iterator[Shown]:
    """Start a command on a pseudo-terminal of 200 columns; it has ended and all is read when this returns."""
    master, slave = pty.openpty()
    extra = {"COLUMNS": "200", "LINES": "50", "TERM": "xterm-256color"}
    process = subprocess.Popen(
        [*ASSAY, *arguments], cwd=project.folder, env=project.environment(extra), stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=slave,
    )  # fmt: skip
    os.close(slave)
    shown = Shown(process, bytearray())
    reader = threading.Thread(target=_read, args=(master, shown.written))
    reader.start()
    try:
        yield shown
        process.wait(PATIENCE_SECONDS)
    finally:
        process.kill()
        process.wait()
        reader.join()
        os.close(master)


def _read(master: int, written: bytearray) -> None:
    try:
        while part := os.read(master, 65_536):
            written += part
    except OSError as end:
        # This is how a terminal tells that nobody is on its other side any more.
        if end.errno != errno.EIO:
            raise


def growing(counts: list[tuple[int, int]], least: int) -> list[str]:
    """What is wrong with the figures of a run over COUNT records that began with `least` done."""
    found = []
    done = [each for each, _ in counts]
    if {total for _, total in counts} - {COUNT}:
        found.append(f"totals {sorted({total for _, total in counts})}")
    if max(done) > COUNT:
        found.append(f"{max(done)} of {COUNT} done")
    if falls := [pair for pair in pairwise(done) if pair[0] > pair[1]]:
        found.append(f"figures that fall: {falls}")
    if len(set(done)) < 5:
        found.append(f"only {sorted(set(done))} was shown")
    if done[0] < least:
        found.append(f"begins at {done[0]}, {least} were done")
    return found


async def test_figures_grow_and_stay_below_the_total(tmp_path: Path, db_url: str) -> None:
    """Calls fail on the way: tasks are parked below the checkpoint, and others are held when it dies."""
    project = ticket_project(tmp_path, db_url, COUNT)
    async with practising(project, faults=FaultShares(rate_limited=0.15), latency=0.12) as vendor:
        command = run_tickets(vendor.base_url)
        with on_a_terminal(project, *command) as shown:
            await vendor.until(lambda stats: stats.ended >= COUNT // 2)
            shown.process.kill()
            await asyncio.to_thread(shown.process.wait, 60)
        assert shown.process.returncode == -signal.SIGKILL
        assert growing(shown.counts(), 0) == []
        assert shown.too_early() == []
        assert re.search(rb"parked [1-9]", shown.written)

        committed = project.committed()
        assert 0 < committed < COUNT
        with on_a_terminal(project, *command) as again:
            await asyncio.to_thread(again.process.wait, PATIENCE_SECONDS)
        assert again.process.returncode == 0
        assert project.one("SELECT count(*) FROM assay.task_history WHERE move = 'take_over'") > 0
        assert growing(again.counts(), 0) == []
        assert again.counts()[-1] == (COUNT, COUNT)
    assert sum(project.states().values()) == COUNT


async def test_where_log_lines_are_json_progress_is_one_of_them(tmp_path: Path, db_url: str) -> None:
    project = ticket_project(tmp_path, db_url, 40)
    faults = FaultShares(rate_limited=0.3)
    async with practising(project, faults=faults, latency=0.8) as vendor:
        done = await asyncio.to_thread(project.finished, *run_tickets(vendor.base_url), ASSAY_LOG="json")
    assert done.returncode == 0
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert {"notice", "run_started", "run_ended"} <= {line["event"] for line in lines}
    figures = [line for line in lines if line["event"] == "run_progress"]
    assert figures
    for line in figures:
        assert line["done"] == line["accepted"] + line["review"] + line["dead"] <= line["total"] == 40
    assert any(line["parked"] for line in figures)
    assert next(line for line in lines if line["event"] == "run_ended")["settled"] == 40


def test_wrong_figures_would_be_seen() -> None:
    good = [(0, COUNT), (3, COUNT), (9, COUNT), (50, COUNT), (COUNT, COUNT)]
    assert growing(good, 0) == []
    assert growing([*good, (COUNT + 1, COUNT)], 0) == [f"{COUNT + 1} of {COUNT} done"]
    assert growing([*good, (7, COUNT)], 0) == [f"figures that fall: {[(COUNT, 7)]}"]
    assert growing(good[:3], 0) == ["only [0, 3, 9] was shown"]
    assert growing(good, 2) == ["begins at 0, 2 were done"]
    assert growing([*good, (COUNT, 7)], 0) == [f"totals [7, {COUNT}]"]
