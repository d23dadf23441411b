"""What happened to every message, checked when an incident is over: nothing lost, nothing done twice.

The facts come from four sides: what the broker acknowledged to the producer, what PostgreSQL holds, what the
group has committed at the broker, and what the practice vendor journalled. None of them is taken from the
product's own counts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kafka.produced import Identity, Place, Sent

FINISHING: Final = frozenset({"accept", "refer", "observe", "dead_letter", "give_up"})
UNSETTLED: Final = frozenset({"processing", "retry_scheduled"})
# So many of a kind are named.
NAMED: Final = 4

At = tuple[int, Place]


@dataclass(frozen=True, slots=True)
class Move:
    """One row of the history of a task."""

    task: int
    move: str
    attempt: str | None = None
    replaced: str | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """One call, as the ledger has it. `seen`: the vendor must know of it."""

    task: int
    attempt: str
    pass_number: int
    outcome: str
    seen: bool = True

    @property
    def key(self) -> str:
        return f"{self.attempt}.{self.task}.{self.pass_number}"


@dataclass(frozen=True, slots=True)
class Facts:
    """Places carry the life of the topic. `results`: the version served, by record. `committed` and `ledger`:
    offsets of the last life, at the broker and in PostgreSQL. `journal`: keys of calls in the order of their
    end; None where the ledger cannot know them (a database was put back)."""

    sent: Sequence[Sent]
    inputs: Mapping[Identity, tuple[int, Place, bytes]]
    duplicates: Mapping[At, Identity]
    isolated: Mapping[At, str]
    tasks: Mapping[int, tuple[Identity, str]]
    moves: Sequence[Move]
    calls: Sequence[Call]
    results: Mapping[str, int]
    committed: Mapping[int, int]
    ledger: Mapping[int, int]
    journal: Sequence[str] | None = ()
    broken: Sequence[str] = field(default_factory=tuple)


def discrepancies(facts: Facts) -> list[str]:
    """What does not hold; empty when nothing was lost and nothing done twice."""
    kinds: dict[str, list[str]] = defaultdict(list)
    for check in (_destinations, _settled, _results, _offsets, _causes, _journal):
        for kind, what in check(facts):
            kinds[kind].append(what)
    kinds["audit"].extend(facts.broken)
    return [f"{len(found)} {kind}: {', '.join(found[:NAMED])}" for kind, found in kinds.items() if found]


Found = Iterator[tuple[str, str]]


def _destinations(facts: Facts) -> Found:
    """Each message that the broker took has its place in PostgreSQL."""
    places = {(life, place): identity for identity, (life, place, _) in facts.inputs.items()}
    for sent in facts.sent:
        at = (sent.life, sent.place)
        isolated = facts.isolated.get(at)
        if sent.identity is None:
            if isolated != "input_schema_invalid":
                yield "malformed messages without isolation", f"{at}"
            continue
        known = facts.inputs.get(sent.identity)
        if known is None:
            yield "records lost", f"{sent.identity} at {at}"
        elif known[2] != sent.sha256:
            if isolated != "input_version_conflicts_with_content":
                yield "conflicts without isolation", f"{sent.identity} at {at}"
        elif sent.identity not in (places.get(at), facts.duplicates.get(at)):
            yield "messages without a destination", f"{sent.identity} at {at}"
    sent_at = {(sent.life, sent.place) for sent in facts.sent}
    # A worker may read on in a new topic for a moment, before it notices that it is another one.
    last = max((sent.life for sent in facts.sent), default=0)
    for at in {*places, *facts.duplicates, *facts.isolated} - sent_at:
        if at[0] == last:
            yield "destinations of messages that nobody sent", f"{at}"


def _settled(facts: Facts) -> Found:
    """Each input has one task, settled, finished once."""
    tasks = Counter(identity for identity, _ in facts.tasks.values())
    for identity in facts.inputs:
        if tasks[identity] != 1:
            yield "inputs without exactly one task", f"{identity}: {tasks[identity]}"
    finishes = Counter(move.task for move in facts.moves if move.move in FINISHING)
    for task, (identity, state) in facts.tasks.items():
        if state in UNSETTLED:
            yield "tasks unsettled", f"{identity} is {state}"
        elif finishes[task] > 1:
            yield "annotations with more than one result", f"{identity}"
        elif not finishes[task] and state != "superseded":
            yield "annotations without a result", f"{identity} is {state}"


def _results(facts: Facts) -> Found:
    """Each record has one result, of its newest version."""
    newest: dict[str, int] = {}
    for record, version in facts.inputs:
        newest[record] = max(version, newest.get(record, 0))
    for record, version in newest.items():
        if facts.results.get(record) != version:
            yield "records without their newest result", f"{record}: {facts.results.get(record)}"


def _offsets(facts: Facts) -> Found:
    """All is committed, at the broker and in PostgreSQL, and nothing beyond."""
    last = max((sent.life for sent in facts.sent), default=0)
    ends: dict[int, int] = {}
    for sent in facts.sent:
        if sent.life == last:
            ends[sent.place[0]] = max(ends.get(sent.place[0], 0), sent.place[1] + 1)
    for name, committed in (("the broker", facts.committed), ("PostgreSQL", facts.ledger)):
        for partition in ends.keys() | committed.keys():
            if committed.get(partition, 0) != ends.get(partition, 0):
                yield (
                    "partitions not committed to their end",
                    f"{partition} at {name}: {committed.get(partition)} of {ends.get(partition)}",
                )


def _causes(facts: Facts) -> Found:
    """Each attempt that called and did not finish its task has ended by a move of the history."""
    ended = {move.attempt for move in facts.moves if move.move in FINISHING | {"park"}}
    ended |= {move.replaced for move in facts.moves if move.move == "take_over"}
    begun = {(move.task, move.attempt) for move in facts.moves if move.move in ("claim", "take_over")}
    passes: Counter[str] = Counter(call.key for call in facts.calls)
    for call in facts.calls:
        if (call.task, call.attempt) not in begun:
            yield "calls of no attempt", call.key
        elif call.attempt not in ended:
            yield "calls of an attempt without an end", call.key
        if passes[call.key] > 1:
            yield "calls twice in the ledger", call.key
    outcomes = {(call.task, call.attempt, call.pass_number): call.outcome for call in facts.calls}
    for call in facts.calls:
        before = outcomes.get((call.task, call.attempt, 1))
        if call.pass_number == 2 and before == "accepted":
            yield "corrections of what was accepted", call.key
    accepted = Counter(call.task for call in facts.calls if call.outcome == "accepted")
    for task, count in accepted.items():
        if count > 1:
            yield "tasks with two accepted calls", str(task)


def _journal(facts: Facts) -> Found:
    """The vendor and the ledger know the same calls."""
    if facts.journal is None:
        return
    seen = Counter(facts.journal)
    known = {call.key: call for call in facts.calls}
    for key, count in seen.items():
        if count > 1:
            yield "calls sent more than once", key
        if key not in known:
            yield "calls that are not in the ledger", key
    for key, call in known.items():
        if call.seen and key not in seen:
            yield "calls that the vendor has not seen", key
