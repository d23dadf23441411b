"""One worker of the product on a topic, as `assay work` runs it, with a model that answers at once.

It is a member of the group, with its share of the partitions, before the word to go: how long a group takes
to form is the broker's affair. Where it begins to read is asked after the word.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from assay.adapters.kafka.open_topic import TopicReading, open_topic
from assay.adapters.kafka.security import Connection
from assay.adapters.kafka.topic_source import TopicSource
from assay.adapters.vault import Vault
from assay.app import RECORDED_CONCURRENCY, RunPlan, register_version, run_pipeline
from assay.cli.run_command import settle_garbage_collection
from assay.pipeline.limits import WorkerLimits
from assay.pipeline.progress import Progress
from assay.pipeline.worker import Worker
from bench.answers import AtOnce, ticket_pipeline
from bench.background import Background
from bench.broker import GROUP, INPUT
from bench.children import Figures
from bench.crew import told_to_stop
from bench.processes import peak_rss_bytes
from bench.product import KEY

_GROUP_SECONDS: Final = 60.0


class Gate:
    """Keeps assignments back until it is opened.

    The embedded broker assigns all of a member's partitions anew each time: the last assignment counts.
    """

    def __init__(self, source: TopicSource, share: int) -> None:
        self._ask: Callable[[Mapping[int, int]], None] = source.starts_wanted
        self._share = share
        self._lock = threading.Lock()
        self._assigned: dict[int, int] = {}
        self._open = False
        # The member's thread announces partitions to the source itself, so it is stopped there.
        name = "starts_wanted"
        setattr(source, name, self._announced)

    def _announced(self, partitions: Mapping[int, int]) -> None:
        with self._lock:
            self._assigned = dict(partitions)
            if self._open:
                self._ask(partitions)

    def has_its_share(self) -> bool:
        """Whether the group has given this member as many partitions as it should have."""
        return len(self._assigned) == self._share

    def open(self) -> None:
        """Begin to read."""
        with self._lock:
            self._open = True
            self._ask(self._assigned)


class _Run:
    def __init__(self, spec: dict[str, Any]) -> None:
        self._spec = spec
        self._pipeline = ticket_pipeline("openai:bench-1")
        self._version_id, _ = register_version(spec["url"], self._pipeline, Path("/"))
        reading = TopicReading(topic=INPUT, group=GROUP, connection=Connection(spec["brokers"]).config)
        self._source = open_topic(reading)
        self.gate = Gate(self._source, spec["share"])
        self.progress = Progress()
        self._worker: Worker | None = None

    async def main(self) -> None:
        settle_garbage_collection()
        limits = WorkerLimits(concurrency=self._spec.get("concurrency") or RECORDED_CONCURRENCY)
        plan = RunPlan(
            url=self._spec["url"], vault=Vault(KEY), pipeline=self._pipeline, version_id=self._version_id,
            model=AtOnce(), sources=[self._source], mapping="{}", limits=limits, patience_seconds=math.inf,
            clears_stop=False,
        )  # fmt: skip
        await run_pipeline(plan, self.progress, self._note)

    def _note(self, worker: Worker) -> None:
        self._worker = worker

    def stop(self) -> None:
        """As the first signal does it."""
        if self._worker is not None:
            self._worker.request_stop()


def prepare(spec: dict[str, Any]) -> Callable[[], Figures]:
    """`url`, `brokers`; `share`: how many partitions it gets; `concurrency`."""
    run = _Run(spec)
    background = Background(run.main)
    background.start()
    background.wait_for(run.gate.has_its_share, "its share of the partitions", _GROUP_SECONDS)

    def work() -> Figures:
        cpu = time.process_time()
        run.gate.open()
        told_to_stop()
        cpu = time.process_time() - cpu
        background.call(run.stop)
        background.join()
        progress = run.progress
        return {
            "cpu": cpu, "accepted": float(progress.accepted), "lease_lost": float(progress.lease_lost),
            "parked": float(progress.parked), "peak_rss": float(peak_rss_bytes()),
        }  # fmt: skip

    return work
