"""One attempt on one task: call, judge, correct once, route. Ends in exactly one finish."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import Enum
from typing import Final

from assay.domain.boundary import Accepted, judge
from assay.domain.contract import plan_of
from assay.domain.contract_schema import contract_schema
from assay.domain.correction import correction_text
from assay.domain.definition import Pipeline
from assay.domain.failures import AssayError, FailureClass, ProviderError, TransientProviderError
from assay.domain.lifecycle import TaskState
from assay.domain.prompt import messages
from assay.domain.rejection import Rejected, RejectionCode
from assay.domain.retry import GiveUp, RetryPolicy, decide_retry
from assay.domain.route import decide
from assay.domain.sealing import label_aad, response_aad
from assay.domain.work import (
    CallOutcome,
    CallRecord,
    ClaimedTask,
    Evidence,
    Finish,
    KeptResponse,
    Label,
    Passes,
    SealedResponse,
    accept,
    dead_letter,
    park,
    refer,
)
from assay.pipeline.call_records import answered_call, failed_call, kept_answer
from assay.pipeline.flow import Flow
from assay.pipeline.flow_ticket import FREE, BreakerOpen
from assay.ports import ModelPort, ModelRequest, ModelResponse, Probe, VaultPort
from assay.telemetry import tell

# Workers that may die with a task in their hands before it is set aside. Deaths hit records that were never
# called just as well (they were claimed ahead), so the limit is far above that of real attempts.
MAX_TAKE_OVERS: Final = 10

# Requests that a vendor may refuse in a row until the version is stopped, and how often one record may wait.
MOST_REFUSED: Final = 10
_MOST_REFUSED_TRIES: Final = 3
_REFUSED_AGAIN_SECONDS: Final = 5.0
_REFUSED_SENTENCE: Final = (
    "The vendor refuses every request: check the pipeline's parameters, prompt and contract against its "
    "model, then run again."
)

_DEFECTS: Final = (Exception,)

# Only a first guess: the flow learns from the vendor's own counts.
_CHARACTERS_PER_TOKEN: Final = 4

FIRST: Final = 1
CORRECTION: Final = 2

# Makes a first-pass failure durable; False when the lease is gone.
NoteFirstPass = Callable[[ClaimedTask, str, CallRecord], Awaitable[bool]]


class LeaseGone(Exception):
    """Somebody else holds the task now: this attempt ends without a word."""


@dataclass(slots=True)
class Underway:
    """How far an attempt has come: which pass is being asked for, if any, and since when (loop time).

    `late`: the call was cancelled because its deadline has passed. `answered`: what the last call came back
    with.
    """

    calling: int | None = None
    since: float | None = None
    late: bool = False
    answered: KeptResponse | None = None


@dataclass(frozen=True, slots=True)
class Stopped:
    """A configuration failure: the version cannot go on until a person acts. `sentence`: how, if known."""

    code: str
    status: int | None
    sentence: str | None = None


class Annotator:
    """Runs attempts of one pipeline version. `chance` yields numbers in [0, 1)."""

    def __init__(
        self,
        pipeline: Pipeline,
        model: ModelPort,
        vault: VaultPort,
        flow: Flow,
        *,
        note_first_pass: NoteFirstPass,
        chance: Callable[[], float],
        probe: Probe,
    ) -> None:
        self._pipeline = pipeline
        self._model = model
        self._vault = vault
        self._flow = flow
        self._note = note_first_pass
        self._chance = chance
        self._probe = probe
        self._retry = RetryPolicy(max_attempts=pipeline.max_attempts, max_age=pipeline.max_age_hours * 3600.0)
        self._schema = contract_schema(pipeline.contract) if pipeline.structured_output else None
        self._correction = correction_text(pipeline.contract)
        self._keeps = pipeline.keep_responses_days > 0
        self._answered = False
        self._refusals = 0
        self._failing = 0
        self.stopped: Stopped | None = None

    async def annotate(self, task: ClaimedTask, underway: Underway) -> Finish:
        """Call the model as often as the task still needs it (at most twice) and decide where it goes.

        Raises `LeaseGone` when the task was taken over in between; every other outcome is a `Finish`.
        """
        first_code = task.first_pass_code
        if not task.readable:
            evidence = Evidence(FailureClass.CONFIGURATION, None, (("", "text_unreadable"),))
            return dead_letter(task, "text_unreadable", evidence, Passes(first_code))
        if self.stopped is not None:
            # Claimed before the version was stopped: it is not called.
            return park(task, 0.0, self.stopped.code, Passes(first_code), uses_attempt=False)
        if task.take_overs > MAX_TAKE_OVERS:
            # So many workers died with it that the record may be what kills them.
            return self._give_up(task, "attempts_exhausted", (("", "take_over"),), Passes(first_code))
        try:
            if first_code is None:
                ended = await self._first_pass(task, underway)
                if isinstance(ended, Finish):
                    return ended
                first_code = ended
            verdict, call = await self._pass(task, CORRECTION, underway)
        except BreakerOpen as refused:
            # Nothing was called: neither an attempt nor age is used up.
            return park(task, refused.seconds, "breaker_open", Passes(first_code), uses_attempt=False)
        passes = Passes(first_code, verdict.code.value if isinstance(verdict, Rejected) else None, (call,))
        return self._conclude(task, verdict, passes, underway.answered)

    def _judge_again(self, task: ClaimedTask, kept: KeptResponse) -> Finish:
        """What a replay asks for where the contract alone has changed: the kept response, and no call."""
        verdict = judge(self._pipeline.contract, kept.content, text=task.text, truncated=kept.truncated)
        code = verdict.code.value if isinstance(verdict, Rejected) else None
        return self._conclude(task, verdict, Passes(code), kept)

    async def _first_pass(self, task: ClaimedTask, underway: Underway) -> Finish | str:
        """The finish, or the code of a failure that one correction may mend: durable by then."""
        if task.kept is not None:
            return self._judge_again(task, task.kept)
        verdict, call = await self._pass(task, FIRST, underway)
        if not (isinstance(verdict, Rejected) and verdict.correctable):
            code = verdict.code.value if isinstance(verdict, Rejected) else None
            return self._conclude(task, verdict, Passes(code, None, (call,)), underway.answered)
        self._probe("before_first_pass_note")
        if not await self._note(task, verdict.code.value, call):
            raise LeaseGone
        self._probe("after_first_pass_note")
        return verdict.code.value

    def _conclude(
        self,
        task: ClaimedTask,
        verdict: Accepted | Rejected | ProviderError,
        passes: Passes,
        answer: KeptResponse | None,
    ) -> Finish:
        if isinstance(verdict, ProviderError):
            return self._failed(task, verdict, passes)
        if isinstance(verdict, Accepted):
            return self._route(task, verdict, passes)
        return self._refused(task, verdict, passes, answer)

    async def _pass(
        self, task: ClaimedTask, number: int, underway: Underway
    ) -> tuple[Accepted | Rejected | ProviderError, CallRecord]:
        request = self._request(task, number)
        size = sum(len(text) for _, text in request.messages) // _CHARACTERS_PER_TOKEN
        retry = task.is_retry and (number == FIRST or task.first_pass_code is not None)
        ticket = self._flow.try_admit(size, retry=retry) or await self._flow.admit(size, retry=retry)
        try:
            verdict = await self._ask(task, request, underway)
        except BaseException:
            # Nobody will hear how this call ended.
            self._flow.give_back(ticket)
            raise
        if isinstance(verdict, ProviderError):
            self._flow.failed(ticket, verdict)
            self._failing += verdict.failure_class is FailureClass.TRANSIENT
            if ticket is not FREE and (ticket.probe or self._failing > 1):
                # The vendor has answered nobody since it last failed: this tells of the vendor, not of the
                # record, which must not use up its attempts on an outage. Its age goes on.
                verdict.counts_attempt = False
            return verdict, failed_call(number, verdict)
        self._flow.answered(ticket, verdict)
        self._answered, self._failing, self._refusals = True, 0, 0
        underway.calling = None
        self._probe("after_call")
        judged = judge(self._pipeline.contract, verdict.content, text=task.text, truncated=verdict.truncated)
        if self._keeps:
            underway.answered = kept_answer(number, verdict)
        return judged, answered_call(number, verdict, judged)

    async def _ask(
        self, task: ClaimedTask, request: ModelRequest, underway: Underway
    ) -> ModelResponse | ProviderError:
        self._probe("before_call")
        underway.calling, underway.since = request.pass_number, asyncio.get_running_loop().time()
        try:
            return await self._model.complete(request)
        except ProviderError as failure:
            return failure
        except TimeoutError:
            return TransientProviderError("provider_timeout")
        except asyncio.CancelledError:
            if not underway.late:
                raise
            # The worker's sweep cancelled the call alone: the attempt goes on.
            underway.late = False
            if (slot := asyncio.current_task()) is not None:
                slot.uncancel()
            return TransientProviderError("provider_timeout")
        except AssayError:
            raise
        except _DEFECTS as defect:
            # A defect of the adapter that this one record brings out: it must not take the run down with it.
            # Its message may quote the record: only its type is told.
            tell("provider_adapter_error", error=defect, task_id=task.task_id, attempt_id=task.attempt_id,
                 pass_number=request.pass_number)  # fmt: skip
            return TransientProviderError("provider_adapter_error")
        finally:
            underway.since = None

    def _request(self, task: ClaimedTask, number: int) -> ModelRequest:
        return ModelRequest(
            record_id=task.record_id,
            input_version=task.input_version,
            messages=messages(
                self._pipeline.prompt, task.text, self._correction if number == CORRECTION else None
            ),
            json_schema=self._schema,
            schema_name=self._pipeline.contract.__name__,
            parameters=self._pipeline.parameters,
            idempotency_key=idempotency_key(task, number),
            pass_number=number,
        )

    def _route(self, task: ClaimedTask, accepted: Accepted, passes: Passes) -> Finish:
        label = self._label(task, accepted)
        accept_at = self._pipeline.route.accept_at
        state, reason = decide(self._pipeline.route, accepted)
        if state is TaskState.AUTO_CANDIDATE and accept_at is not None:
            return accept(task, self._drawn(label, accepted), passes, accept_at)
        return refer(task, label, passes, str(reason), accept_at)

    def _drawn(self, label: Label, accepted: Accepted) -> Label:
        """The second quality draw, by category; a label without a category is in no stratum."""
        field = plan_of(self._pipeline.contract).label_field
        category = getattr(accepted.value, field) if field is not None else None
        if isinstance(category, Enum):
            category = category.value
        if not isinstance(category, str) or not (share := self._pipeline.quality_strata.get(category)):
            return label
        return replace(
            label, stratum=category, stratum_probability=share, stratum_selected=self._chance() < share
        )

    def _label(self, task: ClaimedTask, accepted: Accepted) -> Label:
        sealed = None
        if accepted.has_sensitive:
            aad = label_aad(task.identity, task.sha256, task.task_id)
            sealed = self._vault.seal(task.key, accepted.label_json.encode(), aad)
        return Label(accepted.plain_json, sealed, accepted.confidence)

    def _refused(
        self, task: ClaimedTask, rejected: Rejected, passes: Passes, answer: KeptResponse | None
    ) -> Finish:
        if rejected.code is RejectionCode.UNEXPECTED_PARSE_ERROR:
            tell("unexpected_parse_error", task_id=task.task_id, attempt_id=task.attempt_id,
                 code=rejected.code.value)  # fmt: skip
        errors = tuple((error.path, error.type) for error in rejected.errors)
        evidence = Evidence(FailureClass.CONTRACT, rejected.kind.value, errors)
        return dead_letter(task, rejected.code.value, evidence, passes, self._kept(task, answer))

    def _kept(self, task: ClaimedTask, answer: KeptResponse | None) -> SealedResponse | None:
        """A refused response for the vault, where the pipeline keeps them."""
        if answer is None or not self._keeps:
            return None
        aad = response_aad(task.identity, task.sha256, task.attempt_id.bytes)
        sealed = self._vault.seal(task.key, answer.content, aad)
        return SealedResponse(
            sealed, answer.truncated, answer.pass_number, self._pipeline.keep_responses_days
        )

    def _failed(self, task: ClaimedTask, failure: ProviderError, passes: Passes) -> Finish:
        match failure.failure_class:
            case FailureClass.CONFIGURATION:
                self.stopped = Stopped(failure.code, failure.status)
                return park(task, 0.0, failure.code, passes, uses_attempt=False)
            case FailureClass.CONTRACT if self._may_be_the_versions_fault(task, failure):
                delay = self._chance() * _REFUSED_AGAIN_SECONDS
                return park(task, delay, failure.code, passes, uses_attempt=False)
            case FailureClass.POLICY | FailureClass.CONTRACT:
                evidence = Evidence(failure.failure_class, None, (("", failure.code),))
                return dead_letter(task, failure.code, evidence, passes)
            case _:
                return self._try_later(task, failure, passes)

    def _may_be_the_versions_fault(self, task: ClaimedTask, failure: ProviderError) -> bool:
        """Whether a refused request tells of the pipeline rather than of the record.

        Some vendors do not say which field of a request they refuse. One refusal among answers is the
        record's own fault; where no answer came before it, or another refusal, the record waits, and enough
        refusals in a row stop the version.
        """
        if failure.code != "provider_request_rejected":
            return False
        self._refusals += 1
        if self._refusals >= MOST_REFUSED:
            self.stopped = Stopped("provider_settings_rejected", failure.status, _REFUSED_SENTENCE)
            return True
        return task.tries <= _MOST_REFUSED_TRIES and not (self._answered and self._refusals == 1)

    def _try_later(self, task: ClaimedTask, failure: ProviderError, passes: Passes) -> Finish:
        decision = decide_retry(
            self._retry,
            attempts=task.attempts - 1,
            tries=task.tries,
            age_seconds=task.age_seconds,
            counts_attempt=failure.counts_attempt,
            chance=self._chance(),
            retry_after=failure.retry_after,
        )
        if isinstance(decision, GiveUp):
            return self._give_up(task, decision.code, (("", failure.code),), passes)
        return park(task, decision.delay_seconds, failure.code, passes, uses_attempt=decision.counts_attempt)

    @staticmethod
    def _give_up(task: ClaimedTask, code: str, errors: tuple[tuple[str, str], ...], passes: Passes) -> Finish:
        return dead_letter(task, code, Evidence(FailureClass.TRANSIENT, None, errors), passes)


def idempotency_key(task: ClaimedTask, number: int) -> str:
    """(attempt, annotation, pass) as the vendor sees it; tells nothing about the record."""
    return f"{task.attempt_id}.{task.task_id}.{number}"


def cut_off(task: ClaimedTask, underway: Underway, reserve: Decimal) -> Finish:
    """The finish of an attempt that a graceful stop cuts off: parked, no attempt used.

    A call that was being waited for may have been answered and billed: it is charged at its reserve.
    """
    calls: tuple[CallRecord, ...] = ()
    if underway.calling is not None:
        calls = (CallRecord(underway.calling, CallOutcome.OUTCOME_UNKNOWN, cost=reserve),)
    return park(task, 0.0, "drained", Passes(None, None, calls), uses_attempt=False)
