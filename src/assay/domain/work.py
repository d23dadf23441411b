"""Values that pass between the rooms of the pipeline and the store: offers, claims, outcomes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from assay.domain.failures import FailureClass
from assay.domain.identity import InputKey, InputRecord, MalformedInput, SourcePosition
from assay.domain.lifecycle import Move, TaskState
from assay.domain.value import value


class Verdict(StrEnum):
    """What a claim found for one offered record."""

    WON = "won"
    ERASED = "erased"
    CONFLICT = "conflict"
    SETTLED = "settled"
    IN_PROGRESS = "in_progress"


@value
class Offer:
    """A record offered for annotation, with the quality draw that holds if this is its first claim."""

    record: InputRecord
    quality_probability: float
    quality_selected: bool


@value
class KeptResponse:
    """A response as it came, kept because a contract refused it. `truncated`: the token limit cut it."""

    content: bytes = field(repr=False)
    truncated: bool
    pass_number: int


@value
class SealedResponse:
    """A kept response on its way into the vault, for so many days."""

    ciphertext: bytes = field(repr=False)
    truncated: bool
    pass_number: int
    days: float


@value
class ClaimedTask:
    """One attempt on one task: the lease of `attempt_id` is ours until somebody takes over.

    `key` is the record's data key, needed to seal the label. `attempts` counts this one, without those that
    a park gave back; `tries` counts every one. `is_retry`: it was parked because its vendor failed.
    `replay_id`: a replay let it out; `kept` is then the response to judge again in place of a call, if any.
    """

    task_id: int
    attempt_id: UUID
    record_id: str
    input_version: int
    sha256: bytes = field(repr=False)
    text: str = field(repr=False)
    text_ref: int
    key: bytes = field(repr=False)
    attempts: int
    first_pass_code: str | None
    quality_selected: bool
    tries: int
    take_overs: int
    age_seconds: float
    taken_over: bool
    readable: bool = True
    is_retry: bool = False
    lease_id: int | None = None
    replay_id: int | None = None
    kept: KeptResponse | None = None

    @property
    def identity(self) -> InputKey:
        return InputKey(self.record_id, self.input_version)


@dataclass(frozen=True, slots=True)
class NotWon:
    """An offer that was not claimed. `wait_seconds` is what is left of the other lease, if any."""

    record: InputRecord
    verdict: Verdict
    wait_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Claims:
    """The answer to a batch of offers: every offer is in exactly one of the two."""

    won: list[tuple[InputRecord, ClaimedTask]]
    not_won: list[NotWon]


class LowPriority(NamedTuple):
    """Whether records of low priority are paused, and how many tasks of the version that holds back."""

    paused: bool
    held: int


class CallOutcome(StrEnum):
    """How one request to a provider ended."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    FAILED = "failed"
    LEASE_LOST = "lease_lost"
    OUTCOME_UNKNOWN = "outcome_unknown"


@value
class CallRecord:
    """A row of the ledger: one request to a provider. Tokens and cost are None where nobody said."""

    pass_number: int
    outcome: CallOutcome
    code: str | None = None
    billed: bool = True
    model: str | None = None
    request_id: str | None = None
    http_status: int | None = None
    finish_reason: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost: Decimal | None = None
    latency_ms: float | None = None
    response_bytes: int | None = None


@value
class Label:
    """An accepted answer on its way into the store: the plain part, and the whole one sealed if need be.

    `stratum` is the label's category, drawn for the quality pool with `stratum_probability` at finish.
    """

    plain_json: str = field(repr=False)
    sealed: bytes | None = field(repr=False)
    confidence: Decimal | None
    stratum: str | None = None
    stratum_probability: float | None = None
    stratum_selected: bool = False


@dataclass(frozen=True, slots=True)
class Evidence:
    """Why a task became a dead letter: class, kind, and errors as (JSON Pointer, type)."""

    failure_class: FailureClass
    kind: str | None
    errors: tuple[tuple[str, str], ...]


@value
class Passes:
    """What the model calls of an attempt came to: codes of both passes (None: passed or not made), calls."""

    first_code: str | None = None
    second_code: str | None = None
    calls: tuple[CallRecord, ...] = ()


@value
class Finish:
    """How an attempt ends. Built by the four constructors below, each of which names its move."""

    task: ClaimedTask
    move: Move
    state: TaskState
    passes: Passes
    reason: str
    error_code: str | None = None
    review_reason: str | None = None
    label: Label | None = None
    accept_at: Decimal | None = None
    evidence: Evidence | None = None
    delay_seconds: float | None = None
    uses_attempt: bool = True
    response: SealedResponse | None = None


def accept(task: ClaimedTask, label: Label, passes: Passes, accept_at: Decimal) -> Finish:
    """Valid, confident and allowed: `auto_candidate` (the release may still refer it to a person)."""
    return Finish(
        task,
        Move.ACCEPT,
        TaskState.AUTO_CANDIDATE,
        passes,
        label=label,
        accept_at=accept_at,
        reason="confident",
    )


def refer(
    task: ClaimedTask,
    label: Label | None,
    passes: Passes,
    review_reason: str,
    accept_at: Decimal | None = None,
) -> Finish:
    """A person must decide: `review_pending`."""
    return Finish(
        task, Move.REFER, TaskState.REVIEW_PENDING, passes, label=label, accept_at=accept_at,
        review_reason=review_reason, reason=review_reason,
    )  # fmt: skip


def dead_letter(
    task: ClaimedTask, error_code: str, evidence: Evidence, passes: Passes,
    response: SealedResponse | None = None,
) -> Finish:  # fmt: skip
    """Refused for good, with evidence: `quarantined`. `response`: what was refused, where it is kept."""
    return Finish(
        task, Move.DEAD_LETTER, TaskState.QUARANTINED, passes, error_code=error_code, reason=error_code,
        evidence=evidence, response=response,
    )  # fmt: skip


def park(
    task: ClaimedTask, delay_seconds: float, reason: str, passes: Passes, *, uses_attempt: bool
) -> Finish:
    """Try again later: `retry_scheduled`, due after `delay_seconds`."""
    return Finish(
        task, Move.PARK, TaskState.RETRY_SCHEDULED, passes, delay_seconds=delay_seconds, reason=reason,
        uses_attempt=uses_attempt,
    )  # fmt: skip


def unstorable(finish: Finish) -> Finish:
    """The finish of an accepted label that turned out not to be storable: a dead letter, no label."""
    code = "unexpected_parse_error"
    *before, last = finish.passes.calls
    calls = (*before, replace(last, outcome=CallOutcome.REJECTED, code=code))
    first = finish.passes.first_code
    passes = Passes(first or code, code if first else None, calls)
    return dead_letter(
        finish.task, code, Evidence(FailureClass.CONTRACT, "malformed", (("", "unstorable"),)), passes
    )


class FinishOutcome(StrEnum):
    """What became of one finish: `already_done` is a finish whose commit reply was lost."""

    DONE = "done"
    ALREADY_DONE = "already_done"
    LEASE_LOST = "lease_lost"


@value
class Finished:
    """The store's answer to one finish; `state` is the state written (a frozen version refers)."""

    outcome: FinishOutcome
    state: TaskState | None


@dataclass(frozen=True, slots=True)
class Isolation:
    """A piece of a source to be kept apart, with its bytes: malformed, or a conflict of content.

    `record` is None for malformed input: it has no identity.
    """

    position: SourcePosition
    raw: bytes = field(repr=False)
    error_code: str
    error_type: str
    path: str = ""
    record: InputRecord | None = None

    @classmethod
    def of_malformed(cls, item: MalformedInput) -> Isolation:
        """Not UTF-8, not JSON, wrong schema, oversized, unstorable: `input_schema_invalid`."""
        return cls(item.position, item.raw, "input_schema_invalid", item.error_type, item.path)

    @classmethod
    def of_conflict(cls, record: InputRecord) -> Isolation:
        """Other content under an identity that is taken: `input_version_conflicts_with_content`."""
        code = "input_version_conflicts_with_content"
        return cls(record.position, record.text.encode(), code, "content_differs", record=record)
