"""A file of a million rows takes no more memory than one of a few thousand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from resident_memory import Watched, watch

from labelling_project import Project

LABELS = ("billing", "technical", "other")
# MiB. Allocators are noisy; to keep half of the rows below, with all that is made for them, takes more.
MORE = 16
PIPELINE = """
from typing import Literal
from assay import Contract, Pipeline, Prompt, Route

class Row(Contract):
    category: Literal["billing", "technical", "other"]

pipeline = Pipeline(name="rows", contract=Row, model="recorded:rows.csv#answer", prompt=Prompt("Label."),
                    route=Route())
"""


def write_rows(folder: Path, count: int) -> None:
    with (folder / "rows.csv").open("w", encoding="utf-8", newline="") as file:
        file.write("id,text,answer\n")
        for row in range(count):
            order = row * 7919 % 1_000_003
            file.write(f'r{row:07},"Row {row}: something about order {order} is wrong, please help.",'
                       f"{LABELS[row % 3]}\n")  # fmt: skip


def labelled(project: Project, count: int, timeout: float) -> Watched:
    project.write("rows.py", PIPELINE)
    write_rows(project.folder, count)
    with project.started("run", "rows.py", "--input", "rows.csv", "--json") as process:
        ran = watch(process, every=0.1, timeout=timeout)
    assert ran.code == 0, ran.told
    assert json.loads(ran.printed)["review"] == count
    assert project.one("SELECT count(*) FROM assay.results") == count
    assert project.committed() == count
    return ran


def exported(project: Project, count: int, timeout: float) -> Watched:
    with project.started("results", "rows.py", "--output", "labels.jsonl") as process:
        found = watch(process, every=0.02 if count < 100_000 else 0.1, timeout=timeout)
    assert found.code == 0, found.told
    with (project.folder / "labels.jsonl").open("rb") as lines:
        assert sum(1 for _ in lines) == count
    return found


def told(name: str, count: int, watched: Watched) -> str:
    return (
        f"{name}: {count} rows in {watched.seconds:.1f} s, {count / watched.seconds:.0f} rows/s,"
        f" {watched.plateau:.0f} MiB early, {watched.end:.0f} MiB at the end"
    )


def test_memory_stays_flat(tmp_path: Path, db_url: str) -> None:
    count = 30_000
    project = Project(tmp_path, db_url)
    ran = labelled(project, count, timeout=120)
    assert ran.end < ran.plateau + MORE, told("run", count, ran)
    found = exported(project, count, timeout=60)
    assert found.end < found.plateau + MORE, told("results", count, found)


def test_growth_would_be_seen() -> None:
    """A process that keeps what it read fails the test above."""
    program = "kept = [bytearray(250_000) for n in range(250) if sum(range(60_000))]"
    with subprocess.Popen([sys.executable, "-c", program], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as process:  # fmt: skip
        watched = watch(process, every=0.01, timeout=60)
    assert watched.code == 0
    assert watched.end > watched.plateau + MORE


@pytest.mark.scale
@pytest.mark.timeout(3600)
def test_a_million_rows(tmp_path: Path, db_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    count = 1_000_000
    project = Project(tmp_path, db_url)
    ran = labelled(project, count, timeout=3000)
    found = exported(project, count, timeout=600)
    with capsys.disabled():
        print(f"\n{told('run', count, ran)}\n{told('results', count, found)}")
    # 16 bytes per row are the index of the recorded answers; the rest is noise of the allocator.
    assert ran.end < ran.plateau + 24, told("run", count, ran)
    assert found.end < found.plateau + 8, told("results", count, found)
    assert project.broken() == []
