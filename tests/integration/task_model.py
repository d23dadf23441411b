"""What the store of one pipeline version must do, in plain Python: no locks, no SQL, one thing at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from assay.domain.identity import InputKey
from assay.domain.lifecycle import FINISHING_MOVES, Move, TaskState
from assay.domain.work import CallOutcome, Finish, FinishOutcome, Offer, Verdict

FAR = float("inf")


@dataclass
class Lease:
    """A worker's clock: until when it holds, and whether somebody found it run out."""

    until: float
    ended: bool = False


@dataclass
class Task:
    """A task; times are on the model's clock."""

    key: InputKey
    selected: bool
    state: TaskState = TaskState.PROCESSING
    attempt: UUID | None = None
    lease_until: float | None = None
    lease: Lease | None = None
    not_before: float | None = None
    attempts: int = 0
    first_pass: str | None = None
    error_code: str | None = None
    review_reason: str | None = None
    output: UUID | None = None
    due: float | None = None
    moves: list[tuple[Move, UUID | None]] = field(default_factory=list)

    @property
    def lease_end(self) -> float:
        """What the claim promised, or what the live lease says."""
        promised = FAR if self.lease_until is None else self.lease_until
        return promised if self.lease is None or self.lease.ended else max(promised, self.lease.until)

    def claimable(self, now: float) -> bool:
        if self.state is TaskState.PROCESSING:
            return self.lease_end < now
        return self.state is TaskState.RETRY_SCHEDULED and (self.not_before or 0.0) <= now


@dataclass
class Model:
    """All of one version of one line."""

    lease: float
    now: float = 0.0
    frozen: bool = False
    contents: dict[InputKey, str] = field(default_factory=dict)
    tasks: dict[InputKey, Task] = field(default_factory=dict)
    ledger: dict[tuple[UUID, int], CallOutcome] = field(default_factory=dict)
    results: dict[str, tuple[int, int]] = field(default_factory=dict)
    events: Counter[tuple[str, str, int, int]] = field(default_factory=Counter)
    reviews: Counter[tuple[InputKey, str, str]] = field(default_factory=Counter)
    letters: Counter[tuple[InputKey, str, str]] = field(default_factory=Counter)
    batches: list[set[InputKey]] = field(default_factory=list)
    leases: dict[int, Lease] = field(default_factory=dict)
    claimed_under: dict[UUID, Lease] = field(default_factory=dict)

    # --- claims -------------------------------------------------------------------------------------------

    def verdict(self, offer: Offer) -> Verdict:
        """What a claim of this offer must find."""
        key, task = offer.record.key, self.tasks.get(offer.record.key)
        if self.contents.get(key, offer.record.text) != offer.record.text:
            return Verdict.CONFLICT
        if task is None or task.claimable(self.now):
            return Verdict.WON
        return Verdict.IN_PROGRESS if task.state is TaskState.PROCESSING else Verdict.SETTLED

    def begin(self, actor: int) -> None:
        """A worker's first claim, of whatever, starts its lease."""
        self.leases.setdefault(actor, Lease(self.now + self.lease))

    def end_leases(self, keys: Iterable[InputKey]) -> None:
        """Before tasks are taken over, the leases that ran out with them are ended."""
        for task in [self.tasks[key] for key in keys if key in self.tasks]:
            if task.attempt is not None and task.lease is not None and task.claimable(self.now):
                task.lease.ended = True

    def claimed(self, offer: Offer, attempt: UUID, actor: int) -> None:
        """The offer was won under this attempt."""
        key = offer.record.key
        self.contents.setdefault(key, offer.record.text)
        self.taken(self.tasks.setdefault(key, Task(key, offer.quality_selected)), attempt, actor)

    def taken(self, task: Task, attempt: UUID, actor: int) -> None:
        """The task is held by this attempt from now on."""
        over = task.attempt is not None
        if task.attempt is not None:
            self.ledger[task.attempt, 1 if task.first_pass is None else 2] = CallOutcome.OUTCOME_UNKNOWN
        task.state, task.attempt, task.not_before = TaskState.PROCESSING, attempt, None
        task.lease_until, task.lease = self.now + self.lease, self.leases[actor]
        self.claimed_under[attempt] = self.leases[actor]
        task.attempts += not over
        task.moves.append((Move.TAKE_OVER if over else Move.CLAIM, attempt))
        if task.due is not None:
            task.due = task.lease_until

    def waiting(self) -> set[InputKey]:
        """What a claim without offers can take."""
        return {key for key, task in self.tasks.items() if task.claimable(self.now)}

    def tidy(self) -> int:
        """Forget batches that nobody works on."""
        kept = [
            batch for batch in self.batches
            if any(self.tasks[key].state is TaskState.PROCESSING for key in batch)
        ]  # fmt: skip
        gone = len(self.batches) - len(kept)
        self.batches = kept
        return gone

    # --- what an attempt does ----------------------------------------------------------------------------

    def holds(self, key: InputKey, attempt: UUID) -> bool:
        return self.tasks[key].attempt == attempt

    def renew(self, held: Sequence[tuple[InputKey, UUID]], actor: int) -> set[UUID]:
        """A live lease holds for all that was claimed under it; what was claimed under another one, or the
        lease was ended: what nobody took goes on under the present one."""
        lease = self.leases[actor]
        strangers = list(held)
        if lease.ended:
            lease = self.leases[actor] = Lease(self.now + self.lease)
        else:
            lease.until = self.now + self.lease
            strangers = [each for each in held if self.claimed_under[each[1]] is not lease]
        ours = {key: attempt for key, attempt in strangers if self.holds(key, attempt)}
        for key, attempt in ours.items():
            self.tasks[key].lease_until, self.tasks[key].lease = self.now + self.lease, lease
            self.claimed_under[attempt] = lease
        if ours:
            self.batches.append(set(ours))
        lost = {attempt for _, attempt in strangers} - set(ours.values())
        return {attempt for _, attempt in held} - lost

    def note(self, key: InputKey, attempt: UUID, code: str) -> bool:
        """A first-pass failure; whether it was in time."""
        if self.holds(key, attempt):
            self.tasks[key].first_pass = code
            self.ledger[attempt, 1] = CallOutcome.REJECTED
            return True
        self._late(attempt, 1)
        return False

    def finish(self, finishes: Sequence[Finish]) -> list[tuple[FinishOutcome, TaskState | None]]:
        """One transaction of finishes, all moves first."""
        answers = [self._end(finish) for finish in finishes]
        settled = [
            finish.task.identity
            for finish, (outcome, state) in zip(finishes, answers, strict=True)
            if outcome is FinishOutcome.DONE and state is not TaskState.RETRY_SCHEDULED
        ]
        for record_id in {key.record_id for key in settled}:
            self._serve(record_id, {key.input_version for key in settled if key.record_id == record_id})
        return answers

    def _end(self, finish: Finish) -> tuple[FinishOutcome, TaskState | None]:
        task, attempt = self.tasks[finish.task.identity], finish.task.attempt_id
        if task.attempt != attempt:
            ended = [move for move, by in task.moves if by == attempt and move in FINISHING_MOVES]
            if ended:
                return FinishOutcome.ALREADY_DONE, _STATE_AFTER[ended[0]]
            for call in finish.passes.calls:
                self._late(attempt, call.pass_number)
            return FinishOutcome.LEASE_LOST, None
        for call in finish.passes.calls:
            self.ledger[attempt, call.pass_number] = call.outcome
        self._move(task, finish)
        return FinishOutcome.DONE, task.state

    def _move(self, task: Task, finish: Finish) -> None:
        held_back = self.frozen and finish.move is Move.ACCEPT
        move = Move.REFER if held_back else finish.move
        task.moves.append((move, task.attempt))
        task.state, task.lease_until, task.lease = _STATE_AFTER[move], None, None
        task.first_pass = task.first_pass or finish.passes.first_code
        task.error_code = finish.error_code
        task.review_reason = "version_frozen" if held_back else finish.review_reason
        if finish.delay_seconds is not None:
            task.due = task.not_before = self.now + finish.delay_seconds
            task.attempts -= not finish.uses_attempt
        else:
            task.due, task.output = None, task.attempt
        task.attempt = None
        if task.state is TaskState.QUARANTINED and task.error_code is not None:
            self.letters[task.key, task.error_code, "open"] += 1
        reason = task.review_reason
        if task.state is TaskState.AUTO_CANDIDATE and task.selected:
            reason = "quality_pool"
        if reason is not None:
            self.reviews[task.key, reason, "open"] += 1

    def _late(self, attempt: UUID, pass_number: int) -> None:
        """A call that is reported after the lease was lost."""
        if self.ledger.get((attempt, pass_number)) in (None, CallOutcome.OUTCOME_UNKNOWN):
            self.ledger[attempt, pass_number] = CallOutcome.LEASE_LOST

    def _serve(self, record_id: str, versions: set[int]) -> None:
        """Point the record's result at the newest version, and supersede what is older."""
        version, revision = self.results.get(record_id, (0, 0))
        if (newest := max(versions)) >= version:
            version, revision = newest, revision + 1
            self.results[record_id] = version, revision
            state = self.tasks[InputKey(record_id, version)].state
            kind = "quarantined" if state is TaskState.QUARANTINED else "completed"
            self.events[record_id, kind, revision, version] += 1
        for task in self.tasks.values():
            if task.key.record_id == record_id and task.key.input_version < version and task.attempt is None:
                self._supersede(task, revision)

    def _supersede(self, task: Task, revision: int) -> None:
        if task.state is TaskState.SUPERSEDED:
            return
        task.state, task.not_before, task.due = TaskState.SUPERSEDED, None, None
        task.moves.append((Move.SUPERSEDE, None))
        self.events[task.key.record_id, "superseded", revision, task.key.input_version] += 1
        for items, after in ((self.reviews, "withdrawn"), (self.letters, "resolved")):
            for key, reason, state in [item for item in items if item[0] == task.key and item[2] == "open"]:
                items[key, reason, after] += items.pop((key, reason, state))


_STATE_AFTER = {
    Move.ACCEPT: TaskState.AUTO_CANDIDATE,
    Move.REFER: TaskState.REVIEW_PENDING,
    Move.PARK: TaskState.RETRY_SCHEDULED,
    Move.DEAD_LETTER: TaskState.QUARANTINED,
}
