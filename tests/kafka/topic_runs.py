"""Workers on a topic: tickets as messages, `assay work` as people start it, and what came of it."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition

from kafka.brokers import BrokerUnderTest
from labelling_project import Project

PATIENCE: Final = 120.0
CONCURRENCY: Final = 8
LEASE: Final = 4.0

Message = tuple[str | None, bytes | None]


def tickets_of(project: Project) -> list[dict[str, Any]]:
    """The project's tickets, in the order of their file."""
    return [
        {"record_id": (ticket := json.loads(line)).pop("id"), **ticket}
        for line in (project.folder / "gold.jsonl").read_text().splitlines()
    ]


def as_messages(records: Iterable[Mapping[str, Any]]) -> list[Message]:
    """Records as a producer would send them: keyed by record id, without their gold."""
    return [
        (str(record["record_id"]), json.dumps({k: v for k, v in record.items() if k != "gold"}).encode())
        for record in records
    ]


def produce(
    bootstrap: str,
    topic: str,
    messages: Sequence[Message],
    *,
    headers: Mapping[str, bytes] | None = None,
    partition: int = -1,
) -> None:
    """Writes messages and waits until the broker has them all."""
    failures: list[str] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 5})
    for key, value in messages:
        producer.produce(
            topic, value=value, key=key, headers=None if headers is None else list(headers.items()),
            partition=partition,
            on_delivery=lambda error, _: failures.append(str(error)) if error is not None else None,
        )  # fmt: skip
        producer.poll(0)
    assert producer.flush(PATIENCE) == 0
    assert failures == []


def committed(bootstrap: str, group: str, topic: str, partitions: int) -> dict[int, int]:
    """What the group has committed at the broker, by partition; nothing for one without.

    Asked by a consumer that never joins: the client's admin side dies (SIGSEGV) of an answer that the
    coordinator is still loading.
    """
    asking = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    try:
        found = asking.committed([TopicPartition(topic, each) for each in range(partitions)], timeout=20)
        return {each.partition: each.offset for each in found if each.error is None and each.offset >= 0}
    finally:
        asking.close()


def work_tickets(
    broker: BrokerUnderTest, topic: str, base_url: str, *options: str, concurrency: int = CONCURRENCY
) -> tuple[str, ...]:
    """The command of one worker, with short leases and sessions."""
    return ("work", "tickets.py", "--topic", topic, "--brokers", broker.bootstrap, "--base-url", base_url,
            "--lease", str(LEASE), "--session", "6", "--concurrency", str(concurrency), *options)  # fmt: skip


@contextmanager
def working(project: Project, *command: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A worker that goes on while the block does. Its log goes to a file: nobody has to read a pipe."""
    log = project.folder / f"worker-{time.monotonic_ns()}.log"
    from labelling_project import ASSAY

    with log.open("w") as told, subprocess.Popen(
        [*ASSAY, *command], cwd=project.folder, env=project.environment(environment), text=True,
        stdout=told, stderr=told,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def until(holds: Callable[[], bool], what: str, *processes: subprocess.Popen[str]) -> None:
    """Look again every moment, for as long as the processes live and patience lasts."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, f"not in time: {what}"
        assert all(process.poll() is None for process in processes), f"a worker has ended before: {what}"
        time.sleep(0.1)


def settled(project: Project) -> int:
    """Records that need nothing more."""
    states = project.states()
    return sum(count for state, count in states.items() if state not in ("processing", "retry_scheduled"))
