"""The history checker finds what it is there to find: each doctored history, and nothing in a sound one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from kafka.commit_watch import too_early
from kafka.history import Call, Facts, Move, discrepancies
from kafka.produced import Sent

A, B, OLD = ("a", 1), ("b", 1), ("b", 2)
SOUND = Facts(
    sent=(Sent((0, 0), A, b"a"), Sent((0, 1), None, b""), Sent((0, 2), A, b"a"), Sent((0, 3), A, b"x"),
          Sent((1, 0), OLD, b"2"), Sent((1, 1), B, b"1")),
    inputs={A: (0, (0, 0), b"a"), OLD: (0, (1, 0), b"2"), B: (0, (1, 1), b"1")},
    duplicates={(0, (0, 2)): A},
    isolated={(0, (0, 1)): "input_schema_invalid", (0, (0, 3)): "input_version_conflicts_with_content"},
    tasks={1: (A, "auto_candidate"), 2: (OLD, "review_pending"), 3: (B, "superseded")},
    moves=(Move(1, "claim", "p"), Move(1, "take_over", "q", "p"), Move(1, "accept", "q"),
           Move(2, "claim", "r"), Move(2, "refer", "r"), Move(3, "claim", "s"), Move(3, "accept", "s")),
    calls=(Call(1, "p", 1, "outcome_unknown", seen=False), Call(1, "q", 1, "rejected"),
           Call(1, "q", 2, "accepted"), Call(2, "r", 1, "accepted"), Call(3, "s", 1, "accepted")),
    results={"a": 1, "b": 2},
    committed={0: 4, 1: 2}, ledger={0: 4, 1: 2},
    journal=("p.1.1", "q.1.1", "q.1.2", "r.2.1", "s.3.1"),
)  # fmt: skip

DOCTORED: dict[str, Callable[[Facts], Facts]] = {
    "records lost": lambda f: replace(f, inputs={k: v for k, v in f.inputs.items() if k != A}),
    "messages without a destination": lambda f: replace(f, duplicates={}),
    "malformed messages without isolation": lambda f: replace(f, isolated={}),
    "conflicts without isolation": lambda f: replace(f, isolated={(0, (0, 1)): "input_schema_invalid"}),
    "destinations of messages that nobody sent": lambda f: replace(f, sent=f.sent[1:]),
    "inputs without exactly one task": lambda f: replace(f, tasks={1: f.tasks[1], 3: f.tasks[3]}),
    "tasks unsettled": lambda f: replace(f, tasks={**f.tasks, 1: (A, "processing")}),
    "annotations with more than one result": lambda f: replace(f, moves=(*f.moves, Move(1, "accept", "p"))),
    "annotations without a result": lambda f: replace(f, moves=[m for m in f.moves if m.move != "refer"]),
    "records without their newest result": lambda f: replace(f, results={**f.results, "b": 1}),
    "partitions not committed to their end": lambda f: replace(f, committed={0: 4, 1: 3}),
    "calls of no attempt": lambda f: replace(f, calls=(*f.calls, Call(1, "z", 1, "failed", seen=False))),
    "calls of an attempt without an end": lambda f: replace(f, moves=[m for m in f.moves if not m.replaced]),
    "calls twice in the ledger": lambda f: replace(f, calls=(*f.calls, f.calls[0])),
    "corrections of what was accepted": lambda f: replace(
        f, calls=(*f.calls[:1], replace(f.calls[1], outcome="accepted"), *f.calls[2:])
    ),
    "tasks with two accepted calls": lambda f: replace(
        f, calls=(replace(f.calls[0], outcome="accepted", seen=True), *f.calls[1:])
    ),
    "calls sent more than once": lambda f: replace(f, journal=[*(f.journal or ()), "r.2.1"]),
    "calls that are not in the ledger": lambda f: replace(f, calls=f.calls[1:]),
    "calls that the vendor has not seen": lambda f: replace(f, journal=list(f.journal or ())[:-1]),
    "audit": lambda f: replace(f, broken=("one_result_per_record: 1",)),
}


def test_a_sound_history_has_nothing() -> None:
    assert discrepancies(SOUND) == []


@pytest.mark.parametrize("kind", DOCTORED)
def test_a_doctored_history_is_found(kind: str) -> None:
    assert any(kind in found for found in discrepancies(DOCTORED[kind](SOUND)))


def test_a_commit_that_comes_too_early_is_found() -> None:
    assert too_early("broker", {0: 2}, SOUND.sent, {(0, 0), (0, 1)}) == []
    assert too_early("broker", {0: 3}, SOUND.sent, {(0, 0), (0, 1)}) == ["broker: (0, 2) below 3"]
