"""Task states, the moves between them, and the one table of legal moves.

The table below is the only place where a move is allowed. The first migration seeds the same rows into
`legal_moves`, a trigger refuses every other move, and a test compares the two. Nothing here does I/O.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class TaskState(StrEnum):
    """Where a task stands. Every state has one sentence; `docs/states.md` is generated from them."""

    PROCESSING = "processing"
    RETRY_SCHEDULED = "retry_scheduled"
    AUTO_CANDIDATE = "auto_candidate"
    REVIEW_PENDING = "review_pending"
    REVIEWED = "reviewed"
    REJECTED = "rejected"
    QUARANTINED = "quarantined"
    SHADOWED = "shadowed"
    SUPERSEDED = "superseded"
    ERASED = "erased"


STATE_SENTENCES: Final[dict[TaskState, str]] = {
    TaskState.PROCESSING: "An attempt holds the lease.",
    TaskState.RETRY_SCHEDULED: "Parked in PostgreSQL until not_before; its payload is stored.",
    TaskState.AUTO_CANDIDATE: (
        "Valid, confident, allowed by policy and by the release: eligible for snapshots."
    ),
    TaskState.REVIEW_PENDING: "A person must decide.",
    TaskState.REVIEWED: "A person approved or corrected it: eligible for snapshots.",
    TaskState.REJECTED: "A person refused it, or a dead letter was closed with a reason: never eligible.",
    TaskState.QUARANTINED: "A dead letter: it waits with evidence for a named fix.",
    TaskState.SHADOWED: "Output of a shadow version: recorded and compared, never routed, never eligible.",
    TaskState.SUPERSEDED: "A newer input version or a replay under a newer pipeline version took its place.",
    TaskState.ERASED: "Its content and keys are gone; a tombstone refuses redelivery.",
}


class Move(StrEnum):
    """What happened to a task. A history row names the move, never only the new state."""

    CLAIM = "claim"
    TAKE_OVER = "take_over"
    ACCEPT = "accept"
    REFER = "refer"
    OBSERVE = "observe"
    PARK = "park"
    GIVE_UP = "give_up"
    DEAD_LETTER = "dead_letter"
    DEMOTE = "demote"
    WITHDRAW = "withdraw"
    APPROVE = "approve"
    CORRECT = "correct"
    REJECT = "reject"
    AMEND = "amend"
    REOPEN = "reopen"
    REPLAY = "replay"
    REFER_DEAD_LETTER = "refer_dead_letter"
    CLOSE = "close"
    SUPERSEDE = "supersede"
    ERASE = "erase"


_S = TaskState
_M = Move

# A task that does not exist yet has the state None.
SETTLED: Final[frozenset[TaskState]] = frozenset(set(TaskState) - {_S.PROCESSING})

LEGAL_MOVES: Final[frozenset[tuple[TaskState | None, Move, TaskState]]] = frozenset(
    {
        (None, _M.CLAIM, _S.PROCESSING),
        (_S.RETRY_SCHEDULED, _M.CLAIM, _S.PROCESSING),
        (_S.SHADOWED, _M.CLAIM, _S.PROCESSING),
        (_S.PROCESSING, _M.TAKE_OVER, _S.PROCESSING),
        (_S.PROCESSING, _M.ACCEPT, _S.AUTO_CANDIDATE),
        (_S.PROCESSING, _M.REFER, _S.REVIEW_PENDING),
        (_S.PROCESSING, _M.OBSERVE, _S.SHADOWED),
        (_S.PROCESSING, _M.PARK, _S.RETRY_SCHEDULED),
        (_S.PROCESSING, _M.DEAD_LETTER, _S.QUARANTINED),
        (_S.RETRY_SCHEDULED, _M.GIVE_UP, _S.QUARANTINED),
        (_S.AUTO_CANDIDATE, _M.DEMOTE, _S.REVIEW_PENDING),
        (_S.AUTO_CANDIDATE, _M.WITHDRAW, _S.QUARANTINED),
        (_S.REVIEW_PENDING, _M.WITHDRAW, _S.QUARANTINED),
        (_S.REVIEW_PENDING, _M.APPROVE, _S.REVIEWED),
        (_S.REVIEW_PENDING, _M.CORRECT, _S.REVIEWED),
        (_S.REVIEW_PENDING, _M.REJECT, _S.REJECTED),
        (_S.REVIEWED, _M.AMEND, _S.REVIEWED),
        (_S.REVIEWED, _M.REOPEN, _S.REVIEW_PENDING),
        (_S.REJECTED, _M.REOPEN, _S.REVIEW_PENDING),
        (_S.QUARANTINED, _M.REPLAY, _S.PROCESSING),
        (_S.QUARANTINED, _M.REFER_DEAD_LETTER, _S.REVIEW_PENDING),
        (_S.QUARANTINED, _M.CLOSE, _S.REJECTED),
    }
    | {(state, _M.SUPERSEDE, _S.SUPERSEDED) for state in SETTLED - {_S.SUPERSEDED, _S.ERASED}}
    | {(state, _M.ERASE, _S.ERASED) for state in set(TaskState) - {_S.ERASED}}
)

# The moves by which an attempt itself ends. A history row with one of these and the attempt's id proves
# that the attempt finished, whatever its worker was told (a commit reply can be lost).
FINISHING_MOVES: Final[frozenset[Move]] = frozenset(
    {_M.ACCEPT, _M.REFER, _M.OBSERVE, _M.PARK, _M.DEAD_LETTER}
)


def is_legal(before: TaskState | None, move: Move, after: TaskState) -> bool:
    """Whether the table allows this move."""
    return (before, move, after) in LEGAL_MOVES
