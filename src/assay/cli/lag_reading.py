"""Lag from its two sides: PostgreSQL's ledger first, then the brokers, so that it is never told too small."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from assay.adapters.kafka.security import Connection
from assay.adapters.kafka.topic_ends import Place, TopicEnds, TopicLook
from assay.adapters.postgres.lag_store import LagStore, Ledger
from assay.domain.failures import ConfigurationError
from assay.domain.lag import Lag, PartitionLag, TopicLag, Waiting


def read_lag(
    url: str, connection: Connection, pipeline: str, group: str, topics: Sequence[str], *, ages: bool
) -> Lag:  # fmt: skip
    """The lag of a pipeline's topics; without any named, of all that it has read. `ages`: it must be known
    how long messages have waited.

    Raises `ConfigurationError` for a topic or pipeline that is not there, and where no broker answers.
    """
    ledger = LagStore(url).read(pipeline)
    with TopicLook(connection, group) as look:
        there = look.partitions()
        known = list(dict.fromkeys(each.topic for each in ledger.seen if each.ours))
        # What a worker opened and has settled nothing of yet is known by its fingerprint alone.
        opened = {each.topic for each in ledger.seen if not each.ours and each.topic in there} - set(known)
        chosen = list(topics) or [name for name in known if name in there]
        ends = [_ends(look, there, name) for name in chosen]
        if not topics:
            found = (look.ends(name, there[name]) for name in sorted(opened))
            mine = {each.fingerprint for each in ledger.seen}
            ends += [each for each in found if each.fingerprint in mine]
        if not ends:
            raise _nothing(ledger, pipeline, group, known)
        waited = _ages(look, ledger, ends, needed=ages)
    lags = tuple(_topic(each, ledger, waited) for each in ends)
    shown = {(each.topic, part.partition) for each in lags for part in each.partitions}
    return Lag(
        pipeline=pipeline, group=group, now=ledger.now, topics=lags,
        gone=() if topics else tuple(name for name in known if name not in there),
        elsewhere=_sum([each for place, each in ledger.waiting.items() if place not in shown]),
        outbox=ledger.outbox,
    )  # fmt: skip


def _ends(look: TopicLook, there: Mapping[str, Sequence[int]], topic: str) -> TopicEnds:
    if topic not in there:
        raise ConfigurationError(f"There is no topic {topic} at these brokers; check the name.")
    return look.ends(topic, there[topic])


def _nothing(ledger: Ledger, pipeline: str, group: str, known: Sequence[str]) -> ConfigurationError:
    if not ledger.known:
        return ConfigurationError(
            f"There is no pipeline {pipeline!r} in this database; see `assay pipeline list`."
        )
    if known:
        return ConfigurationError(
            f"{', '.join(known)}, which {pipeline} has read, is not at these brokers; name others with "
            "--brokers."
        )
    return ConfigurationError(
        f"{pipeline} has read no topic as the group {group}; name the topic with --topic, or another group "
        "with --group."
    )


def _ages(
    look: TopicLook, ledger: Ledger, ends: Sequence[TopicEnds], *, needed: bool
) -> dict[Place, float]:  # fmt: skip
    """How old the first message is that is not settled, in seconds, where one waits."""
    bare = {each.topic: _topic(each, ledger, {}) for each in ends}
    places = {
        (name, part.partition): part.next_offset
        for name, topic in bare.items()
        for part in topic.partitions
        if part.lag
    }
    written = look.written_at(places, needed=needed)
    return {place: _since(ledger.now, at) for place, at in written.items()}


def _since(now: datetime, then: datetime) -> float:
    return max(0.0, (now - then).total_seconds())


def _topic(ends: TopicEnds, ledger: Ledger, ages: Mapping[Place, float]) -> TopicLag:
    parts = [
        PartitionLag(
            each.partition, each.low, each.high, ledger.settled.get((ends.fingerprint, each.partition)),
            each.committed, ledger.waiting.get((ends.topic, each.partition), Waiting()),
            ages.get((ends.topic, each.partition)),
        )
        for each in ends.partitions
    ]  # fmt: skip
    opened = any(each.fingerprint == ends.fingerprint for each in ledger.seen)
    return TopicLag(ends.topic, opened, tuple(parts))


def _sum(some: Sequence[Waiting]) -> Waiting:
    ages = [each.oldest_seconds for each in some if each.oldest_seconds is not None]
    return replace(
        Waiting(sum(each.unfinished for each in some), sum(each.held for each in some)),
        oldest_seconds=max(ages, default=None),
    )
