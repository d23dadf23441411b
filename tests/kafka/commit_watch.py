"""Watches committed offsets while workers run: none may pass a message without a durable destination."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import psycopg
from confluent_kafka import KafkaException

from kafka.produced import Feed, Place, Sent
from kafka.topic_runs import committed

EVERY: Final = 0.4
_DEFECTS: Final = (Exception,)
# A task once out of `processing` has its destination, whatever becomes of it later.
_DURABLE: Final = """
WITH topic AS (
    SELECT source_id FROM assay.sources WHERE kind = 'kafka' ORDER BY 1 OFFSET %(life)s LIMIT 1),
settled AS (SELECT t.record_id, t.input_version FROM assay.annotation_tasks t WHERE EXISTS (
    SELECT FROM assay.task_history h WHERE h.task_id = t.task_id AND h.to_state <> 'processing'))
SELECT partition_no, source_offset FROM assay.inputs JOIN topic USING (source_id)
    JOIN settled USING (record_id, input_version)
UNION ALL SELECT partition_no, source_offset FROM assay.source_duplicates JOIN topic USING (source_id)
    JOIN settled USING (record_id, input_version)
UNION ALL SELECT partition_no, source_offset FROM assay.isolated_records JOIN topic USING (source_id)
"""
_LEDGER: Final = """
SELECT partition_no, max(committed_offset) FROM assay.source_checkpoints
WHERE source_id = (
    SELECT source_id FROM assay.sources WHERE kind = 'kafka' ORDER BY 1 OFFSET %(life)s LIMIT 1)
GROUP BY 1
"""


@dataclass
class CommitWatch:
    """`looks` were taken; `passed` says which offsets were committed too early; `seen` are the last ones."""

    looks: int = 0
    passed: list[str] = field(default_factory=list)
    seen: dict[int, int] = field(default_factory=dict)
    regressed: list[str] = field(default_factory=list)
    # A database that was put back may know less than the broker for a while: then its word alone counts.
    broker_counts: bool = True

    def look(self, url: str, bootstrap: str, group: str, partitions: int, feed: Feed) -> None:
        """One look. Committed offsets are read before destinations, which only ever increase."""
        sent, life = list(feed.sent), {"life": feed.life}
        try:
            at_broker = committed(bootstrap, group, feed.topic, partitions)
        except KafkaException:
            at_broker = {}
        with psycopg.connect(url, connect_timeout=5) as connection:
            ledger: dict[int, int] = dict(connection.execute(_LEDGER, life).fetchall())
            durable = set(connection.execute(_DURABLE, life).fetchall())
        self.looks += 1
        for name, offsets in (("broker", at_broker if self.broker_counts else {}), ("ledger", ledger)):
            self.passed += too_early(name, offsets, [s for s in sent if s.life == feed.life], durable)
        if self.broker_counts:
            self.regressed += [
                f"{partition}: {self.seen[partition]}, then {offset}"
                for partition, offset in at_broker.items()
                if offset < self.seen.get(partition, 0)
            ]
        self.seen = self.seen | at_broker


def too_early(
    name: str, offsets: Mapping[int, int], sent: Iterable[Sent], durable: Collection[Place]
) -> list[str]:
    """Messages below a committed offset that have no durable destination."""
    return [
        f"{name}: {each.place} below {offsets[each.place[0]]}"
        for each in sent
        if each.place[1] < offsets.get(each.place[0], 0) and each.place not in durable
    ]


@contextmanager
def watching(url: str, bootstrap: str, group: str, partitions: int, feed: Feed) -> Iterator[CommitWatch]:
    """Look all the time, from a thread of its own. A database or broker that is away is no finding."""
    watch, end = CommitWatch(), threading.Event()
    failures: list[Exception] = []

    def run() -> None:
        while not end.wait(EVERY):
            try:
                watch.look(url, bootstrap, group, partitions, feed)
            except psycopg.OperationalError:
                continue
            except _DEFECTS as defect:
                failures.append(defect)
                return

    thread = threading.Thread(target=run, name="commit-watch", daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        end.set()
        thread.join(60)
    assert failures == []
