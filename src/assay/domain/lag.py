"""How far a pipeline is behind its topics, and downstream behind the pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

_UNITS: Final = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))


@dataclass(frozen=True, slots=True)
class Waiting:
    """Records that a pipeline has accepted and not finished. `held`: those among them that a pause of low
    priority keeps waiting; they do not count for `oldest_seconds`, the seconds since the first claim."""

    unfinished: int = 0
    held: int = 0
    oldest_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """One partition. `low`, `high`: the first offset that the broker has, and one after the last. `settled`:
    the first offset without a durable destination as PostgreSQL has it; None where nothing was ever settled.
    `committed`: what the group has committed at the broker. `oldest_unsettled_seconds`: the age of the first
    message that is not settled, by its own timestamp."""

    partition: int
    low: int
    high: int
    settled: int | None = None
    committed: int | None = None
    waiting: Waiting = Waiting()
    oldest_unsettled_seconds: float | None = None

    @property
    def next_offset(self) -> int:
        """The first offset that is there and not settled."""
        return max(self.low, self.settled or 0)

    @property
    def lag(self) -> int:
        """Messages that are there and not settled."""
        return max(0, self.high - self.next_offset)

    @property
    def expired(self) -> int:
        """Messages that the broker has deleted before they were settled."""
        return 0 if self.settled is None else max(0, self.low - self.settled)

    @property
    def beyond_end(self) -> bool:
        """Whether PostgreSQL knows of more than the broker has: an older broker, or one written anew."""
        return self.settled is not None and self.settled > self.high


@dataclass(frozen=True, slots=True)
class TopicLag:
    """`opened`: whether a worker of the group has ever opened this topic as it is now."""

    topic: str
    opened: bool
    partitions: tuple[PartitionLag, ...]


@dataclass(frozen=True, slots=True)
class SinkBacklog:
    """Events that wait in the outbox. `sink`: where their publishers send to; None where none lives.
    `refused`: events that the sink refuses."""

    sink: str | None
    publishers: int
    backlog: int
    oldest_seconds: float | None
    refused: int


@dataclass(frozen=True, slots=True)
class Lag:
    """All of it. `gone`: topics that were read once and are not at these brokers. `elsewhere`: accepted
    records that came from files, from other topics or from partitions that are no more. The outbox is the
    whole database's."""

    pipeline: str
    group: str
    now: datetime
    topics: tuple[TopicLag, ...]
    gone: tuple[str, ...]
    elsewhere: Waiting
    outbox: tuple[SinkBacklog, ...]

    @property
    def total(self) -> int:
        """Messages of all topics that are there and not settled."""
        return sum(each.lag for topic in self.topics for each in topic.partitions)

    @property
    def unfinished(self) -> int:
        """Accepted records that are not finished."""
        return self.elsewhere.unfinished + sum(each.waiting.unfinished for each in self._partitions())

    @property
    def oldest_unfinished_seconds(self) -> float | None:
        """Since the first claim of the record that is longest at work."""
        ages = [each.waiting.oldest_seconds for each in self._partitions()]
        return _most([self.elsewhere.oldest_seconds, *ages])

    @property
    def oldest_unsettled_seconds(self) -> float | None:
        """The age of the oldest message that is not settled."""
        return _most(each.oldest_unsettled_seconds for each in self._partitions())

    @property
    def backlog(self) -> int:
        """Events that are not published."""
        return sum(each.backlog for each in self.outbox)

    def exceeded(self, most: int | None, oldest: float | None) -> list[str]:
        """A sentence for each limit that is passed: `most` messages or events, `oldest` seconds. Deleted
        messages pass every limit."""
        found = list(self._too_many(most)) if most is not None else []
        if oldest is not None:
            found += self._too_old(oldest)
        if most is not None or oldest is not None:
            found += self.losses()
        return found

    def losses(self) -> list[str]:
        """A sentence for each partition whose messages were deleted too early."""
        return [
            f"{_many(each.expired, 'message')} of {topic.topic}, partition {each.partition}, "
            f"{'was' if each.expired == 1 else 'were'} deleted by the broker before being read."
            for topic in self.topics
            for each in topic.partitions
            if each.expired
        ]

    def _partitions(self) -> Iterator[PartitionLag]:
        for topic in self.topics:
            yield from topic.partitions

    def _too_many(self, most: int) -> Iterator[str]:
        if self.total > most:
            yield f"{_many(self.total, 'message')} not settled, over {most}."
        if self.backlog > most:
            yield f"{_many(self.backlog, 'event')} not published, over {most}."

    def _too_old(self, oldest: float) -> Iterator[str]:
        events = _most(each.oldest_seconds for each in self.outbox)
        for what, age in (
            ("message that is not settled", self.oldest_unsettled_seconds),
            ("record that is not finished", self.oldest_unfinished_seconds),
            ("event that is not published", events),
        ):
            if age is not None and age > oldest:
                yield f"The oldest {what} has waited {age_text(age)}, over {age_text(oldest)}."


def age_text(seconds: float) -> str:
    """An age for people, in its two largest units: `2h 3m`, `45s`, `0s`."""
    left, words = max(0, int(seconds)), []
    for unit, size in _UNITS:
        number, left = divmod(left, size)
        if number:
            words.append(f"{number}{unit}")
        if words and (len(words) == 2 or not number):
            break
    return " ".join(words) or "0s"


def _most(ages: Iterable[float | None]) -> float | None:
    return max((age for age in ages if age is not None), default=None)


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
