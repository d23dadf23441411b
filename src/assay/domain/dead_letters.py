"""Dead letters: what groups them into cohorts, which ones are meant, and whether one can be replayed."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from assay.domain.failure_table import FAILURE_TABLE, FailureClass

# Days until somebody should have dealt with a dead letter, where the pipeline's terms say nothing else.
DUE_AFTER_SECONDS: Final = 7 * 86_400.0
_INDEX: Final = re.compile(r"/[0-9]+(?=/|\Z)", re.ASCII)
_DIGITS: Final = 16


class LetterState(StrEnum):
    """Where a dead letter stands. The first three wait: their task is not settled for good."""

    OPEN = "open"
    ASSIGNED = "assigned"
    REPLAYING = "replaying"
    RESOLVED = "resolved"
    CLOSED = "closed"


WAITING: Final = (LetterState.OPEN, LetterState.ASSIGNED, LetterState.REPLAYING)


def folded(path: str) -> str:
    """A JSON Pointer with every array index as `*`: the third line item fails as the first one does."""
    return _INDEX.sub("/*", path)


def fields_of(errors: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """The fields that errors (path, type) are about, folded, each once, in the order given."""
    return tuple(dict.fromkeys(folded(path) for path, _ in errors))


def fingerprint(code: str, kind: str | None, errors: Iterable[tuple[str, str]]) -> str:
    """16 hex digits that dead letters share which fail in the same way: SHA-256 over code, kind and the set
    of (path, type), array indices folded. `assay.dead_letter_fingerprint` in SQL says the same."""
    found = sorted({f"\x1e{folded(path)}\x1f{type_}" for path, type_ in errors})
    text = f"{code}\x1f{kind or ''}{''.join(found)}"
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:_DIGITS]


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """Which dead letters are meant; None: any.

    `version`: a label or at least 6 digits of a digest. `since` and `until` bound the last attempt: a moment,
    or seconds back from now. `field`: a JSON Pointer, array indices as `*` or as they are. `overdue`: only
    what waits beyond its due time.
    """

    ids: tuple[int, ...] | None = None
    states: tuple[LetterState, ...] | None = WAITING
    pipeline: str | None = None
    version: str | None = None
    code: str | None = None
    failure_class: str | None = None
    kind: str | None = None
    field: str | None = None
    source: str | None = None
    customer: str | None = None
    document_type: str | None = None
    language: str | None = None
    owner: str | None = None
    fingerprint: str | None = None
    record_id: str | None = None
    since: datetime | float | None = None
    until: datetime | float | None = None
    overdue: bool = False


class Bar(StrEnum):
    """What stands in the way of a replay."""

    ERASED = "erased"
    TEXT_GONE = "text_gone"
    NEWER_INPUT = "newer_input_version"
    SETTLED = "settled"
    RESOLVED = "resolved"
    CLOSED = "closed"
    BEING_REPLAYED = "being_replayed"


@dataclass(frozen=True, slots=True)
class ReplayFacts:
    """What is known now of one dead letter. `readable`: text and keys are in the vault. `newer_input`: the
    highest later version of the record's input."""

    state: LetterState
    task_state: str
    code: str
    failure_class: str
    readable: bool
    newer_input: int | None


@dataclass(frozen=True, slots=True)
class ReplayAnswer:
    """Whether a replay is safe now, what bars it, whether the same call may help, and which fixes fit."""

    safe: bool
    bars: tuple[Bar, ...]
    same_call_may_help: bool
    fixes: tuple[str, ...]


_ANY_CHANGE: Final = (
    "schema",
    "prompt",
    "model",
    "corrected_text",
    "reviewer_correction",
    "repaired_document",
)
# Kinds of fixes that can mend a failure, by its class.
_FIXES: Final[dict[str, tuple[str, ...]]] = {
    FailureClass.TRANSIENT: ("dependency_restored", "limit_changed"),
    FailureClass.CONTRACT: _ANY_CHANGE,
    FailureClass.AMBIGUOUS: _ANY_CHANGE,
    FailureClass.VERSION: ("schema", "prompt", "model", "corrected_text"),
    FailureClass.POLICY: ("approval", "repaired_document", "model"),
    FailureClass.CONFIGURATION: ("dependency_restored", "repaired_document"),
}


def may_help(code: str, failure_class: str) -> bool:
    """Whether the same call again may end otherwise: a dependency that was down, an answer that was cut."""
    rule = FAILURE_TABLE.get(code)
    return failure_class == FailureClass.TRANSIENT or (rule is not None and rule.retryable)


def replay_answer(facts: ReplayFacts) -> ReplayAnswer:
    """Whether the dead letter can be replayed safely, from what is known now."""
    bars = tuple(_bars(facts))
    return ReplayAnswer(
        not bars,
        bars,
        may_help(facts.code, facts.failure_class),
        _FIXES.get(facts.failure_class, _ANY_CHANGE),
    )


def _bars(facts: ReplayFacts) -> Iterable[Bar]:
    if facts.task_state == "erased":
        yield Bar.ERASED
    elif not facts.readable:
        yield Bar.TEXT_GONE
    match facts.state:
        case LetterState.RESOLVED:
            yield Bar.RESOLVED
        case LetterState.CLOSED:
            yield Bar.CLOSED
        case LetterState.REPLAYING:
            yield Bar.BEING_REPLAYED
        case _:
            if facts.task_state not in ("quarantined", "erased"):
                yield Bar.SETTLED
    if facts.newer_input is not None:
        yield Bar.NEWER_INPUT
