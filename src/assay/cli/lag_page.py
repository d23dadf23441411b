"""Lag shown: a page for people, an object for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console

from assay.cli.tables import count, put, shown, table
from assay.domain.lag import Lag, PartitionLag, SinkBacklog, TopicLag, Waiting, age_text

_HEADINGS = ("topic", "partition", "low", "high", "settled", "committed", "lag", "oldest waits", "unfinished",
             "at work for")  # fmt: skip
_OUTBOX = ("events go to", "publishers", "backlog", "oldest", "refused")


def show(screen: Console, lag: Lag) -> None:
    """Print a table of partitions with its total, one of the outbox, and what is odd."""
    rows = [_row(topic, each) for topic in lag.topics for each in topic.partitions]
    rows.append(["all", None, None, None, None, None, lag.total, _age(lag.oldest_unsettled_seconds),
                 lag.unfinished, _age(lag.oldest_unfinished_seconds)])  # fmt: skip
    title = f"Lag of {lag.pipeline}, group {lag.group}, at {shown(lag.now)}"
    put(screen, table(shown(title), _HEADINGS, rows, right=_HEADINGS[1:]))
    outbox = [_sink(each) for each in lag.outbox]
    if outbox:
        put(screen, table("Outbox, of the whole database", _OUTBOX, outbox, right=_OUTBOX[1:]))
    else:
        screen.print("Outbox: empty, and no publisher runs.")
    for each in _notes(lag):
        screen.print(each)


def as_object(lag: Lag, exceeded: Sequence[str]) -> dict[str, object]:
    """Everything by name; ages in seconds. `exceeded`: the limits that are passed, in sentences."""
    return {
        "now": lag.now, "pipeline": lag.pipeline, "group": lag.group, "exceeded": list(exceeded),
        "lag": lag.total, "oldest_unsettled_seconds": lag.oldest_unsettled_seconds,
        "unfinished": lag.unfinished, "oldest_unfinished_seconds": lag.oldest_unfinished_seconds,
        "topics": [_topic_object(each) for each in lag.topics], "gone": lag.gone,
        "elsewhere": lag.elsewhere, "backlog": lag.backlog, "outbox": lag.outbox,
    }  # fmt: skip


def _topic_object(topic: TopicLag) -> dict[str, object]:
    return {
        "topic": topic.topic, "opened": topic.opened,
        "partitions": [
            {
                "partition": each.partition, "low": each.low, "high": each.high, "settled": each.settled,
                "committed": each.committed, "lag": each.lag, "expired": each.expired,
                "beyond_end": each.beyond_end, "oldest_unsettled_seconds": each.oldest_unsettled_seconds,
                "unfinished": each.waiting.unfinished, "held": each.waiting.held,
                "oldest_unfinished_seconds": each.waiting.oldest_seconds,
            }
            for each in topic.partitions
        ],
    }  # fmt: skip


def _row(topic: TopicLag, each: PartitionLag) -> list[object]:
    return [topic.topic, each.partition, each.low, each.high, each.settled, each.committed, each.lag,
            _age(each.oldest_unsettled_seconds), each.waiting.unfinished,
            _age(each.waiting.oldest_seconds)]  # fmt: skip


def _sink(each: SinkBacklog) -> list[object]:
    return [each.sink or "nobody publishes", each.publishers, each.backlog, _age(each.oldest_seconds),
            each.refused]  # fmt: skip


def _age(seconds: float | None) -> str | None:
    return None if seconds is None else age_text(seconds)


def _notes(lag: Lag) -> Iterator[str]:
    yield from map(shown, lag.losses())
    for topic in lag.topics:
        if not topic.opened:
            yield shown(
                f"No worker of the group {lag.group} has opened {topic.topic} as it is now; name another "
                "group with --group."
            )
        beyond = [str(each.partition) for each in topic.partitions if each.beyond_end]
        if beyond:
            yield shown(
                f"PostgreSQL knows of more than the brokers have, in {topic.topic}, "
                f"{'partition' if len(beyond) == 1 else 'partitions'} {', '.join(beyond)}: was it restored, "
                "or written anew?"
            )
    if lag.gone:
        yield shown(f"Read once, and not at these brokers: {', '.join(lag.gone)}.")
    if lag.elsewhere.unfinished:
        yield f"{count(lag.elsewhere.unfinished, 'unfinished record')} came from files or other topics."
    held = sum(each.held for each in _waiting(lag))
    if held:
        yield f"{count(held, 'unfinished record')} of low priority, which is paused; no age is counted."


def _waiting(lag: Lag) -> Iterator[Waiting]:
    yield lag.elsewhere
    for topic in lag.topics:
        for each in topic.partitions:
            yield each.waiting
