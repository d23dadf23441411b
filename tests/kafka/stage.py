"""A topic, a database, a vendor and workers; and the end of every incident: drain, check the history."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import errors

from assay.vendor.server import RunningVendor, start_vendor
from assay.vendor.settings import FaultShares, VendorConfig
from kafka.brokers import BrokerUnderTest
from kafka.commit_watch import CommitWatch, watching
from kafka.history import discrepancies
from kafka.history_facts import ledger, read_facts
from kafka.produced import KNOWN, Feed
from kafka.topic_runs import committed
from labelling_project import ASSAY, Project
from practice_runs import ticket_project

PATIENCE: Final = float(os.environ.get("ASSAY_TEST_PATIENCE", "120"))
LEASE: Final = 3.0
SESSION: Final = 6.0
# Mistakes that a correction mends, so that every kind of pass is on its way when something happens.
MISTAKES: Final = FaultShares(extra_field=0.06, string_confidence=0.04)
NO_MISTAKES: Final = FaultShares()


@dataclass(frozen=True, slots=True)
class Worker:
    """A running `assay work`; what it says goes to a file."""

    process: subprocess.Popen[str]
    log: Path

    def said(self) -> str:
        return self.log.read_text("utf-8", errors="replace")

    def events(self, name: str) -> int:
        """How often it has told of an event."""
        return self.said().count(name)

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def ended(self, within: float = 60.0) -> int:
        """Its exit code."""
        return await asyncio.to_thread(self.process.wait, within)

    async def stop(self, within: float = 60.0) -> None:
        """SIGTERM, and a graceful end."""
        self.send(signal.SIGTERM)
        code = await self.ended(within)
        assert code == 0, self.said()[-3000:]


@dataclass
class Stage:
    """`through` are other addresses of database and brokers for workers, such as those of a proxy."""

    project: Project
    broker: BrokerUnderTest
    topic: str
    partitions: int
    vendor: RunningVendor
    feed: Feed
    watch: CommitWatch
    group: str
    journal: bool = True
    workers: list[Worker] = field(default_factory=list)

    def command(self, *options: str, brokers: str = "", concurrency: int = 8) -> tuple[str, ...]:
        return ("work", "tickets.py", "--topic", self.topic, "--brokers", brokers or self.broker.bootstrap,
                "--group", self.group, "--base-url", self.vendor.base_url, "--lease", str(LEASE),
                "--session", str(SESSION),
                "--concurrency", str(concurrency), "--drain", "5", "--quiet", *options)  # fmt: skip

    @contextmanager
    def working(
        self, *options: str, brokers: str = "", concurrency: int = 8, **environment: str
    ) -> Iterator[Worker]:
        """A worker that goes on while the block does; killed when the block ends before it."""
        command = self.command(*options, brokers=brokers, concurrency=concurrency)
        with self.running(*command, **environment) as worker:
            yield worker

    @contextmanager
    def running(self, *command: str, **environment: str) -> Iterator[Worker]:
        """Any command that goes on while the block does."""
        log = self.project.folder / f"worker-{len(self.workers)}.log"
        with log.open("w") as told, subprocess.Popen(
            [*ASSAY, *command], cwd=self.project.folder, text=True, stdin=subprocess.DEVNULL, stdout=told,
            stderr=told, env=self.project.environment({"ASSAY_LOG_FORMAT": "json"} | environment),
        ) as process:  # fmt: skip
            worker = Worker(process, log)
            self.workers.append(worker)
            try:
                yield worker
            finally:
                if process.poll() is None:
                    process.kill()

    async def send(
        self, messages: Sequence[Mapping[str, Any] | bytes | None], *, partition: int = -1
    ) -> None:
        await asyncio.to_thread(lambda: self.feed.send(messages, partition=partition))

    async def until(
        self, holds: Callable[[], bool], what: str, *workers: Worker, seconds: float = PATIENCE
    ) -> None:
        """Look again every moment; an error as soon as one of the workers has ended."""
        async with asyncio.timeout(seconds):
            try:
                while not await asyncio.to_thread(holds):
                    for worker in workers:
                        assert worker.process.poll() is None, f"before {what}: {worker.said()[-3000:]}"
                    await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                raise AssertionError(f"not in time: {what}; {self.state()}") from None

    def state(self) -> str:
        """For messages: where everything stands."""
        sent, done = (
            self.feed.ends(),
            committed(self.broker.bootstrap, self.group, self.topic, self.partitions),
        )
        logs = [worker.said()[-1500:] for worker in self.workers]
        noted = ledger(self.project, self.feed.life)
        return f"sent {sent}, committed {done}, ledger {noted}, {self.project.states()}, {logs}"

    async def both_at_work(self, *workers: Worker) -> None:
        """Wait until each has partitions."""
        await self.until(
            lambda: all(each.events("partition_assigned") for each in workers),
            "all have partitions",
            *workers,
        )

    def held_by(self, worker: Worker) -> int:
        """Tasks that a worker holds."""
        return int(self.project.one(
            "SELECT count(*) FROM assay.annotation_tasks WHERE state = 'processing' AND last_actor LIKE %s",
            f"%%:{worker.process.pid}:%%",
        ))  # fmt: skip

    @staticmethod
    def seconds_pass(seconds: float) -> Callable[[], bool]:
        """True once so many seconds have passed."""
        until = time.monotonic() + seconds
        return lambda: time.monotonic() >= until

    def settled(self) -> int:
        """Record versions that need nothing more."""
        states = self.project.states()
        return sum(count for state, count in states.items() if state not in ("processing", "retry_scheduled"))

    def drained(self) -> bool:
        """Whether all that was sent is committed, and nothing is unsettled."""
        ends = self.feed.ends()
        return (
            ledger(self.project, self.feed.life) == ends
            and committed(self.broker.bootstrap, self.group, self.topic, self.partitions) == ends
            and self.settled() == sum(self.project.states().values())
        )

    async def finish(self, *workers: Worker) -> None:
        """Heal has happened: wait until everything is drained, stop the workers, check the history."""
        await self.until(self.drained, "everything is drained", *workers)
        await asyncio.gather(*(worker.stop() for worker in workers))
        await self.check()

    async def check(self) -> None:
        """The history, once nobody works any more."""
        async with asyncio.timeout(60):
            await self.vendor.until(lambda stats: stats.in_flight == 0)
        facts = await asyncio.to_thread(
            read_facts, self.project, self.feed, self.broker.bootstrap, self.group, self.partitions,
            journal=self.journal,
        )  # fmt: skip
        found = discrepancies(facts)
        assert not found, found
        assert self.watch.passed == []
        assert self.watch.regressed == []
        assert self.watch.looks > 0


@asynccontextmanager
async def stage(
    folder: Path, database_url: str, broker: BrokerUnderTest, topic: str, partitions: int, *,
    latency: float = 0.05, spread: float = 0.5, mistakes: FaultShares = MISTAKES,
) -> AsyncIterator[Stage]:  # fmt: skip
    """Everything but the workers, with the commits watched."""
    project = ticket_project(folder, database_url, KNOWN)
    config = VendorConfig(
        folder / "gold.jsonl", seed=3, latency=latency, latency_spread=spread, retry_after=0, faults=mistakes,
        journal=folder / "journal.jsonl",
    )  # fmt: skip
    feed = Feed(broker.bootstrap, topic, idempotent=broker.kind == "apache")
    async with start_vendor(config) as vendor:
        group = f"g-{topic}"
        with watching(database_url, broker.bootstrap, group, partitions, feed) as watch:
            yield Stage(project, broker, topic, partitions, vendor, feed, watch, group)


def snapshot(database_url: str, name: str) -> None:
    """A copy of a database that nobody uses just now."""
    _administer(database_url, f'CREATE DATABASE "{name}" TEMPLATE "{_name(database_url)}"')


def put_back(database_url: str, name: str) -> None:
    """The copy takes the place of the database."""
    here = _name(database_url)
    _administer(database_url, f'DROP DATABASE "{here}" WITH (FORCE)')
    _administer(database_url, f'ALTER DATABASE "{name}" RENAME TO "{here}"')


def _name(database_url: str) -> str:
    return database_url.rpartition("/")[2].partition("?")[0]


def _administer(database_url: str, statement: str) -> None:
    head, _, name = database_url.rpartition("/")
    query = name.partition("?")[2]
    with psycopg.connect(f"{head}/postgres?{query}", autocommit=True) as connection:
        # Whoever watches the commits looks in now and then.
        while True:
            try:
                connection.execute(statement.encode())
            except errors.ObjectInUse:
                continue
            return


def memory_of(pid: int) -> float:
    """Resident MiB of a process."""
    for line in Path(f"/proc/{pid}/status").read_text("ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError(f"no process {pid} on {os.name}")
