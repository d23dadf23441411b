"""What PostgreSQL knows of a pipeline's lag: what is settled, what is not finished, what is not published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row, dict_row

from assay.adapters.postgres.queries import queries
from assay.adapters.postgres.reading import reading
from assay.domain.lag import SinkBacklog, Waiting


@dataclass(frozen=True, slots=True)
class TopicSeen:
    """A topic as it once was. `ours`: the pipeline asked for has settled something of it."""

    topic: str
    fingerprint: str
    ours: bool


@dataclass(frozen=True, slots=True)
class Ledger:
    """`known`: the pipeline has a version here. `settled`: by fingerprint and partition. `waiting`: by topic
    and partition; None and None for what came from no topic."""

    now: datetime
    known: bool
    seen: tuple[TopicSeen, ...]
    settled: Mapping[tuple[str, int], int]
    waiting: Mapping[tuple[str | None, int | None], Waiting]
    outbox: tuple[SinkBacklog, ...]


@dataclass(frozen=True, slots=True)
class _Clock:
    now: datetime
    known: bool


@dataclass(frozen=True, slots=True)
class _Position:
    fingerprint: str
    partition: int
    settled: int


class LagStore:
    """Reads the ledger's side of lag, by keys but for the outbox, which is counted."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._sql = queries("lag")

    def read(self, pipeline: str) -> Ledger:
        """Everything at one moment."""
        sql, of = self._sql, {"pipeline": pipeline}
        with reading(self._url) as connection:
            with connection.cursor(row_factory=class_row(_Clock)) as clocks:
                clock = clocks.execute(sql["lag_pipeline"], of).fetchone() or _Clock(datetime.max, False)
            with connection.cursor(row_factory=class_row(TopicSeen)) as topics:
                seen = tuple(topics.execute(sql["lag_sources"], of))
            with connection.cursor(row_factory=class_row(_Position)) as positions:
                settled = {
                    (each.fingerprint, each.partition): each.settled
                    for each in positions.execute(sql["lag_positions"])
                }
            with connection.cursor(row_factory=dict_row) as cursor:
                waiting = {
                    (row.pop("topic"), row.pop("partition")): Waiting(**row)
                    for row in cursor.execute(sql["lag_unfinished"], of)
                }
            with connection.cursor(row_factory=class_row(SinkBacklog)) as sinks:
                outbox = tuple(each for each in sinks.execute(sql["lag_outbox"]) if each.sink or each.backlog)
        return Ledger(clock.now, clock.known, seen, settled, waiting, outbox)
