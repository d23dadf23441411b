"""What a publisher has done so far, as numbers that a screen may read at any time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class PublishProgress:
    """Counters of one publisher. `backlog`, `oldest_seconds` and `blocked` are of the whole outbox, as last
    looked at; None before the first look. `trouble` says what holds events up, if anything."""

    published: int = 0
    sent_again: int = 0
    refused: int = 0
    buckets: int = 0
    backlog: int | None = None
    oldest_seconds: float | None = None
    blocked: int = 0
    trouble: str | None = None
