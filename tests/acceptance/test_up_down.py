"""`assay up` and `assay down` as people type them: real processes, the embedded database and broker."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from assay.adapters.embedded.processes import Life, life_of
from assay.starter import starter_files
from labelling_project import ASSAY

PATIENCE = 60.0
RECORDS = 30


@dataclass(frozen=True, slots=True)
class UpProject:
    """A starter project whose servers live in a place of the test's own."""

    folder: Path

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*ASSAY, *arguments], cwd=self.folder, env=self.environment(), text=True, capture_output=True,
            check=False, timeout=2 * PATIENCE,
        )  # fmt: skip

    @contextmanager
    def started(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """A command that goes on; it is killed where the block ends before it."""
        with subprocess.Popen(
            [*ASSAY, *arguments], cwd=self.folder, env=self.environment(), text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as process:  # fmt: skip
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.kill()

    def environment(self) -> dict[str, str]:
        servers = {"ASSAY_SERVER_HOME": str(self.folder.parent / "servers")} if os.geteuid() == 0 else {}
        return {**os.environ, "ASSAY_PROJECT": str(self.folder), **servers}

    def done(self, *arguments: str) -> str:
        ended = self.run(*arguments)
        assert ended.returncode == 0, ended.stderr + self.logs()
        return ended.stdout

    def status(self) -> dict[str, Any]:
        """`assay up --status --json`, whatever its exit code."""
        found: dict[str, Any] = json.loads(self.run("up", "--status", "--json").stdout)
        return found

    def process(self, name: str) -> dict[str, Any]:
        return next(each for each in self.status()["processes"] if each["name"] == name)

    def pids(self) -> dict[str, int]:
        return {each["name"]: each["pid"] for each in self.status()["processes"] if each["pid"]}

    def read(self, count: int) -> set[str]:
        """Wait for so many events in the topic; the records that they tell of."""
        lines = self.done("topic", "read", "--follow", "--limit", str(count)).splitlines()
        return {json.loads(line)["data"]["record_id"] for line in lines}

    def send(self, prefix: str) -> set[str]:
        """Send the starter's tickets under other ids, with no answers; the ids."""
        rows = [json.loads(line) for line in starter_files()["tickets.jsonl"].splitlines()]
        for row in rows:
            row["id"] = f"{prefix}-{row['id']}"
        (self.folder / "more.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        assert f"{RECORDS} messages sent to tickets.in" in self.done("topic", "send", "more.jsonl")
        return {row["id"] for row in rows}

    def logs(self) -> str:
        """The end of each log, for a failed assertion."""
        found = sorted((self.folder / ".assay" / "up").glob("*.log"))
        return "".join(f"\n--- {log.name}\n{log.read_text()[-1500:]}" for log in found)


def until(happened: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < deadline, f"not within {PATIENCE} s: {what}"
        time.sleep(0.05)


def kill(pid: int) -> None:
    """SIGKILL a process that is not our child, and see it gone."""
    assert life_of(pid) is Life.ALIVE
    os.kill(pid, signal.SIGKILL)
    until(lambda: life_of(pid) in (Life.GONE, Life.ZOMBIE), f"the end of {pid}")


@pytest.fixture
def new_project() -> Iterator[Callable[[], UpProject]]:
    """Makes projects, and leaves nothing of them running."""
    with ExitStack() as stack:

        def make() -> UpProject:
            base = Path(tempfile.mkdtemp(prefix="assay-up-"))
            base.chmod(0o755)
            stack.callback(shutil.rmtree, base, ignore_errors=True)
            folder = base / "project"
            folder.mkdir()
            for name, text in starter_files().items():
                (folder / name).write_text(text)
            project = UpProject(folder)
            stack.callback(project.run, "down", "--force")
            return project

        yield make


def test_up_send_read_down_and_on(new_project: Callable[[], UpProject]) -> None:
    """The way of a newcomer, with the practice vendor; worker and supervisor are killed on the way."""
    project = new_project()
    assert project.run("up", "--status").returncode == 1
    assert "Nothing is up" in project.done("down")
    practice = ("up", "tickets.py", "--practice", "tickets.jsonl#gold")
    told = project.done(*practice)
    assert "produce to tickets.in, read from tickets.out" in told
    first = project.pids()
    assert first.keys() == {"database", "broker", "vendor", "publisher", "worker", "supervisor"}

    again = project.run(*practice)
    assert again.returncode == 0
    assert "up already" in again.stderr
    assert project.pids() == first
    other = project.run("up", "tickets.py")
    assert other.returncode == 2
    assert "assay down" in other.stderr

    sent = project.send("A")
    assert project.read(RECORDS) == sent

    page = project.done("up", "--status").splitlines()
    (worker_line,) = [line.split() for line in page if line.startswith("  worker ")]
    assert worker_line == ["worker", "running", str(first["worker"])]
    kill(first["worker"])
    until(lambda: project.process("worker")["restarts"] == 1, "a new worker")
    until(lambda: project.process("worker")["phase"] == "running", "a running worker")
    worker = project.pids()["worker"]
    kill(first["supervisor"])
    assert project.status()["sound"] is False
    assert {project.pids()[name] for name in ("worker", "broker")} == {worker, first["broker"]}
    assert project.process("supervisor")["phase"] == "gone"
    sent |= project.send("B")
    assert project.read(2 * RECORDS) == sent
    assert "takes over" in project.run(*practice).stderr
    assert {**project.pids(), "supervisor": 0} == {**first, "worker": worker, "supervisor": 0}

    last = project.pids()
    down = project.done("down")
    assert [line.partition(":")[0] for line in down.splitlines()[:5]] == [
        "worker", "publisher", "vendor", "broker", "database",
    ]  # fmt: skip
    assert "killed" not in down
    assert {life_of(pid) for pid in last.values()} <= {Life.GONE, Life.ZOMBIE}
    assert "Nothing is up" in project.done("down")

    project.done(*practice)
    sent = project.send("C")
    assert project.read(RECORDS) == sent
    assert "invariants hold" in project.done("audit")


def test_two_projects_in_the_foreground_and_in_the_background(new_project: Callable[[], UpProject]) -> None:
    """Logs of all on the terminal. A killed supervisor's worker goes on until `down`; Ctrl-C ends all."""
    project, other = new_project(), new_project()
    with in_foreground(project) as process, other.started("up", "tickets.py") as background:
        shown_until(process, "worker    |")
        assert background.wait(PATIENCE) == 0
        mine, theirs = project.pids(), other.pids()
        assert not {*mine.values()} & {*theirs.values()}
        assert mine["supervisor"] == process.pid
        process.kill()
        assert process.wait(PATIENCE) == -9
    told = project.done("down")
    assert "worker: ended" in told
    assert {life_of(pid) for pid in mine.values()} <= {Life.GONE, Life.ZOMBIE}

    with in_foreground(project) as process:
        shown_until(process, "worker    |")
        process.send_signal(signal.SIGINT)
        assert "worker ended" in shown_until(process, "publisher ended")
        assert process.wait(PATIENCE) == 0
    assert other.pids() == theirs
    unread_messages_are_not_thrown_away(other)


def unread_messages_are_not_thrown_away(project: UpProject) -> None:
    """What nobody has read yet ends with the embedded broker: not without --force."""
    worker = project.pids()["worker"]
    os.kill(worker, signal.SIGSTOP)
    project.send("A")
    refused = project.run("down", "--wait", "0")
    assert refused.returncode == 1
    assert f"{RECORDS} messages in tickets.in" in refused.stderr
    assert project.status()["sound"] is True
    os.kill(worker, signal.SIGCONT)
    assert "worker: ended" in project.done("down", "--wait", "60")
    assert f"{RECORDS} inputs" in project.done("audit")
    what_is_lost_by_force_is_told(project)


def what_is_lost_by_force_is_told(project: UpProject) -> None:
    """How many messages end with the broker; and the supervisor's log tells what it did."""
    project.done("up", "tickets.py")
    os.kill(project.pids()["worker"], signal.SIGSTOP)
    project.send("B")
    told = project.done("down", "--force")
    assert f"lost are {RECORDS} messages of tickets.in that no worker had read" in told
    log = (project.folder / ".assay" / "up" / "supervisor.log").read_text()
    assert "worker: started (pid " in log
    assert "supervisor ends with 0" in log


def in_foreground(project: UpProject) -> AbstractContextManager[subprocess.Popen[str]]:
    return project.started("up", "tickets.py", "--foreground")


def shown_until(process: subprocess.Popen[str], part: str) -> str:
    """Read what a command shows up to a line that has `part`."""
    assert process.stdout is not None
    shown = ""
    for line in process.stdout:
        shown += line
        if part in line:
            return shown
    raise AssertionError(f"{part!r} was not shown: {shown}")
