"""A process of `assay up` that ends for want of its broker is started again when the broker is back."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from assay.cli.up_log import SupervisorLog
from assay.cli.up_places import Order, Phase, Plan, ProcessState, UpPlaces
from assay.cli.up_supervised import Supervised


def supervised(folder: Path, *, broker: bool) -> Supervised:
    """A command that ends with 2 at once, as a worker does that finds no topic."""
    order = Order("worker", ("no-such-command",), broker=broker)
    plan = Plan("p", (), str(folder), str(folder), (), (order,), brokers="127.0.0.1:1")
    return Supervised(UpPlaces(folder), plan, order)


def until_waiting(process: Supervised) -> None:
    deadline = time.monotonic() + 60
    process.tick()
    while process.state.phase is not Phase.WAITING:
        assert time.monotonic() < deadline
        if process.state.pid:
            os.waitid(os.P_PID, process.state.pid, os.WEXITED | os.WNOWAIT)
        process.tick()


def test_it_is_started_at_once_and_without_long_pauses(tmp_path: Path) -> None:
    process = supervised(tmp_path, broker=True)
    until_waiting(process)
    assert process.state.code == 2
    process.tick()
    assert process.state.restarts == 0
    process.broker_is_back()
    process.tick()
    assert process.state.restarts == 1
    until_waiting(process)
    began = time.monotonic()
    while process.state.phase is Phase.WAITING:
        process.tick()
        assert time.monotonic() - began < 5
    process.end(10)


def test_what_needs_no_broker_waits_for_a_person(tmp_path: Path) -> None:
    process = supervised(tmp_path, broker=False)
    until_waiting(process)
    process.broker_is_back()
    process.tick()
    assert process.state.phase is Phase.WAITING


def test_the_log_tells_each_change_and_each_trouble_once(capsys: pytest.CaptureFixture[str]) -> None:
    log = SupervisorLog()
    log.changed(ProcessState("worker", Phase.STARTING, 7))
    log.changed(ProcessState("worker", Phase.WAITING, 0, code=-9))
    log.changed(ProcessState("worker", Phase.STARTING, 8, restarts=1))
    for trouble in ("", "no broker", "no broker", ""):
        log.missing(trouble)
    told = [line.split(" ", 1)[1] for line in capsys.readouterr().out.splitlines()]
    assert told == [
        "worker: started (pid 7)", "worker: killed by signal 9, is started again",
        "worker: started (pid 8, restart 1)", "trouble: no broker", "trouble is over",
    ]  # fmt: skip
