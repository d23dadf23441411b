"""The forms of the whole loop over Kafka, and one measurement of one of them.

The input is at the broker before the clock starts. It runs from the word to go, when workers begin to read,
to the last acknowledged event.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from bench.broker import PARTITIONS, Broker, running_broker
from bench.ceiling_sql import LEASE_INDEX, TABLES
from bench.children import Figures, Spec
from bench.crew import Role, crew
from bench.loop_checks import bare_faults, loop_faults
from bench.memory import MemoryWatch
from bench.plan import Stand
from bench.processes import Meter, Usage, peak_rss_bytes, tree_cpu
from bench.records import ticket
from bench.report import LegReport
from bench.server import Database

# The processes that the CPU time and the memory are told of.
WORKER, PUBLISHER, POSTGRESQL, BROKER = "worker", "publisher", "PostgreSQL", "broker"
_READY_SECONDS: Final = 70.0
_SLOWEST: Final = 500.0
_MICRO: Final = 1e6


@dataclass(frozen=True, slots=True)
class LoopForm:
    """One form. `worker` is the kind of its processes; a form without a publisher publishes by itself.
    `leaves`: rows of the bare loop's outbox that stay."""

    name: str
    worker: str
    workers: int = 1
    publisher: str | None = None
    product: bool = False
    leaves: bool = False


OURS: Final = LoopForm("assay, 2 workers + publisher", "loop-worker", 2, "loop-publisher", product=True)
OURS_ONE: Final = LoopForm("assay, 1 worker + publisher", "loop-worker", 1, "loop-publisher", product=True)
BARE: Final = LoopForm("bare loop, 2 workers + publisher", "bare-worker", 2, "bare-publisher")
BARE_ONE: Final = LoopForm("bare loop, 1 worker + publisher", "bare-worker", 1, "bare-publisher")
NAIVE: Final = LoopForm("one message at a time", "loop-naive")
FASTSTREAM: Final = LoopForm("FastStream, max_workers=10", "faststream", leaves=True)


@dataclass(frozen=True, slots=True)
class LoopMeasured:
    """What one run of a form gave: rates and costs per record, memory in bytes by process."""

    rate: float
    cpu: dict[str, float]
    memory: dict[str, float]
    wal: float
    usage: Usage


def measure(stand: Stand, form: LoopForm, records: int, report: LegReport) -> LoopMeasured:
    """Run a form over `records` tickets, check what came of it, and note what did not match."""
    with _database(stand, form) as database, running_broker() as broker:
        broker.fill(_tickets(records))
        found, answers = _run(stand, form, records, database, broker)
        if form.product:
            report.faults += loop_faults(database, broker, records, answers, form.name)
        else:
            left = records if form.leaves else 0
            report.faults += bare_faults(database, broker, records, left, form.name)
    return found


@contextmanager
def _database(stand: Stand, form: LoopForm) -> Iterator[Database]:
    if form.product:
        with stand.server.product_database() as database:
            yield database
        return
    with stand.server.database() as database:
        database.run(TABLES)
        database.run(LEASE_INDEX)
        yield database


@lru_cache(maxsize=2)
def _tickets(records: int) -> Sequence[tuple[str, bytes]]:
    return [ticket(number) for number in range(records)]


def _roles(form: LoopForm, records: int, database: Database, broker: Broker) -> list[Role]:
    common: Spec = {"url": database.url, "brokers": broker.bootstrap, "records": records,
              "patience": _patience(records)}  # fmt: skip
    share = PARTITIONS // form.workers
    roles = [
        Role(WORKER, form.worker, {
            **common, "share": share, "partitions": ",".join(map(str, range(n * share, (n + 1) * share))),
        })
        for n in range(form.workers)
    ]  # fmt: skip
    if form.publisher is not None:
        roles.append(Role(PUBLISHER, form.publisher, common))
    return roles


def _patience(records: int) -> float:
    return 60.0 + records / _SLOWEST


def _run(
    stand: Stand, form: LoopForm, records: int, database: Database, broker: Broker
) -> tuple[LoopMeasured, list[tuple[str, Figures]]]:
    server = stand.server.pid
    roles = _roles(form, records, database, broker)
    with crew(roles, _READY_SECONDS + _patience(records)) as members, MemoryWatch(server) as memory:
        meter = Meter(server, (broker.pid, *members.pids))
        wal, broker_cpu = database.wal_position(), tree_cpu(broker.pid)
        begun = members.go()
        members.wait()
        usage = meter.stop()
        wal, broker_cpu = database.wal_position() - wal, tree_cpu(broker.pid) - broker_cpu
        answers = members.stop()
        broker_memory = peak_rss_bytes(broker.pid)
    started = next((found["first"] for _, found in answers if "first" in found), begun)
    ended = max(found.get("last", 0.0) for _, found in answers)
    cpu = {POSTGRESQL: usage.server_cpu, BROKER: broker_cpu}
    sizes = {POSTGRESQL: float(memory.most), BROKER: float(broker_memory)}
    for name, found in answers:
        cpu[name] = cpu.get(name, 0.0) + found["cpu"]
        sizes[name] = max(sizes.get(name, 0.0), found["peak_rss"])
    per_record = {name: seconds / records * _MICRO for name, seconds in cpu.items()}
    return LoopMeasured(records / (ended - started), per_record, sizes, wal / records, usage), answers
