"""CPU time from /proc: lines that are hard to read, and this process's own time."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from bench.processes import TICK, Meter, parse_stat, peak_rss_bytes, tree, tree_cpu

needs_proc = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="there is no /proc here")


def test_a_command_may_hold_spaces_and_brackets() -> None:
    found = parse_stat("42 (postgres: x (y)) S 41 2 2 0 -1 4194560 1 2 3 4 700 300 20 10 20 0 1 0 5 6 7")

    assert found.parent == 41
    assert found.own == pytest.approx(1000 * TICK)
    assert found.ended == pytest.approx(30 * TICK)


@needs_proc
def test_the_time_of_a_child_that_has_ended_counts() -> None:
    before = tree_cpu(os.getpid())
    burn = "import time\nwhile time.process_time() < 0.2: pass"
    subprocess.run([sys.executable, "-c", burn], check=True)

    assert tree_cpu(os.getpid()) - before >= 0.2 - 2 * TICK


@needs_proc
def test_what_the_bench_uses_itself_is_not_foreign() -> None:
    meter = Meter(os.getpid())

    usage = meter.stop()

    assert 0.0 <= usage.foreign <= 1.0
    assert usage.wall > 0


@needs_proc
def test_a_tree_holds_the_living_children() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert {os.getpid(), child.pid} <= set(tree(os.getpid()))


@needs_proc
def test_the_size_of_whoever_started_a_process_is_not_its_own() -> None:
    big = bytearray(200 << 20)
    big[::4096] = b"x" * (len(big) // 4096)

    told = subprocess.run(
        [sys.executable, "-c", "from bench.processes import peak_rss_bytes; print(peak_rss_bytes())"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip

    assert peak_rss_bytes() > len(big) > int(told.stdout) > 0
