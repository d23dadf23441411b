"""Where the reading of an assigned partition begins."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a partition; offsets, None where nobody knows.

    `broker`: what the group has committed at the broker. `ledger`: the first offset without a durable
    destination as PostgreSQL has it. `low`: the first offset that the broker still has. `high`: one after the
    last it has; None where its word is not good (a broker that counts batches).
    """

    broker: int | None
    ledger: int | None
    low: int
    high: int | None


@dataclass(frozen=True, slots=True)
class Start:
    """The first offset to read, whose word that is (`broker`, `ledger`, `begin`, `end`, `rewritten`), and how
    many offsets in between the broker no longer has."""

    offset: int
    reason: str
    expired: int = 0


def start_of(known: Known, *, from_end: bool) -> Start:
    """The lower of the two positions: after a restore of the database or the broker nothing is passed over.

    A group that PostgreSQL knows nothing of is read from the begin on: what the broker calls committed has no
    destination there. A group that nobody knows begins where it was told to. A position beyond the end
    is that of a topic that was written anew.
    """
    low, high = known.low, known.high
    if known.ledger is None:
        if known.broker is None and from_end and high is not None:
            return Start(high, "end")
        return Start(low, "begin")
    if known.broker is None or known.ledger <= known.broker:
        wanted, reason = known.ledger, "ledger"
    else:
        wanted, reason = known.broker, "broker"
    if high is not None and wanted > high:
        return Start(low, "rewritten")
    if wanted < low:
        return Start(low, reason, expired=low - wanted)
    return Start(wanted, reason)
