"""THE table of failures: code, class, may another try help, what it uses up, where it leads, who acts.

Written once, here. `docs/failures.md` is made from it, `PROVIDER_CODES` is read from it, and a
`ProviderError` takes from it whether it uses up an attempt. The codes of the boundary and of the route are
named again where they are made; a test compares.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class FailureClass(StrEnum):
    """Decides the route of a failure."""

    TRANSIENT = "transient"
    CONTRACT = "contract"
    AMBIGUOUS = "ambiguous"
    VERSION = "version"
    POLICY = "policy"
    CONFIGURATION = "configuration"


class Origin(StrEnum):
    """Where a code comes from."""

    BOUNDARY = "boundary"
    ROUTE = "route"
    PROVIDER = "provider"
    LIMIT = "limit"
    INPUT = "input"
    VERSION = "version"


class UsesUp(StrEnum):
    """What one occurrence takes from the task's limits. Age runs in either case, unless time stands still."""

    ATTEMPT = "an attempt"
    AGE = "age alone"
    NOTHING = "nothing"


class Destination(StrEnum):
    """Where the record goes."""

    RETRY = "`retry_scheduled`, then `quarantined`"
    WAIT = "`retry_scheduled`, time stands still"
    QUARANTINED = "`quarantined`"
    REVIEW = "`review_pending`"
    STOP_VERSION = "`retry_scheduled`; the version stops"
    ISOLATED = "isolated"
    EVENT = "no move of its own: an event and an alert"


class Owner(StrEnum):
    """Who acts."""

    NOBODY = "nobody: it passes"
    VENDOR = "vendor"
    ON_CALL = "on-call engineer"
    DATA_ENGINEER = "data engineer"
    PROMPT_OWNER = "prompt owner"
    CONTRACT_OWNER = "contract owner"
    REVIEWER = "reviewer"
    POLICY_OWNER = "policy owner"
    BUDGET_OWNER = "budget owner"
    DEVELOPER = "developer: a defect"


@dataclass(frozen=True, slots=True)
class FailureRule:
    """One row. `retryable`: another try may help, without anybody acting."""

    code: str
    origin: Origin
    failure_class: FailureClass
    retryable: bool
    uses_up: UsesUp
    destination: Destination
    owner: Owner
    meaning: str


def _boundary(
    code: str, meaning: str, *, retryable: bool = False, owner: Owner = Owner.PROMPT_OWNER
) -> FailureRule:
    return FailureRule(
        code, Origin.BOUNDARY, FailureClass.CONTRACT, retryable, UsesUp.NOTHING, Destination.QUARANTINED,
        owner, meaning,
    )  # fmt: skip


def _review(code: str, meaning: str) -> FailureRule:
    return FailureRule(
        code, Origin.ROUTE, FailureClass.AMBIGUOUS, False, UsesUp.NOTHING, Destination.REVIEW, Owner.REVIEWER,
        meaning,
    )  # fmt: skip


def _transient(
    code: str, meaning: str, uses_up: UsesUp = UsesUp.ATTEMPT, owner: Owner = Owner.VENDOR
) -> FailureRule:
    return FailureRule(
        code, Origin.PROVIDER, FailureClass.TRANSIENT, True, uses_up, Destination.RETRY, owner, meaning
    )


def _stops(code: str, meaning: str, owner: Owner = Owner.ON_CALL) -> FailureRule:
    return FailureRule(
        code, Origin.PROVIDER, FailureClass.CONFIGURATION, False, UsesUp.NOTHING, Destination.STOP_VERSION,
        owner, meaning,
    )  # fmt: skip


def _refused(code: str, failure_class: FailureClass, owner: Owner, meaning: str) -> FailureRule:
    return FailureRule(
        code, Origin.PROVIDER, failure_class, False, UsesUp.NOTHING, Destination.QUARANTINED, owner, meaning
    )


def _waits(code: str, failure_class: FailureClass, owner: Owner, meaning: str) -> FailureRule:
    retryable = failure_class is FailureClass.TRANSIENT
    return FailureRule(
        code, Origin.LIMIT, failure_class, retryable, UsesUp.NOTHING, Destination.WAIT, owner, meaning
    )


_ROWS: Final = (
    _boundary("response_too_large", "The answer is over the byte limit."),
    _boundary("response_truncated", "The token limit cut the answer.", retryable=True),
    _boundary("response_empty", "The answer is nothing, or white space alone.", retryable=True),
    _boundary("json_invalid", "The answer is not exactly one JSON value."),
    _boundary("json_duplicate_key", "One key stands twice in one object."),
    _boundary("schema_extra_field", "A field that the contract does not declare."),
    _boundary("schema_type_error", "Null or a wrong type."),
    _boundary("schema_validation_error", "A field is missing, out of range, blank or cannot be stored."),
    _boundary("semantic_invalid", "Types hold, a rule of the contract does not.", owner=Owner.CONTRACT_OWNER),
    _boundary("unexpected_parse_error", "A rule, a validator or assay itself failed.", owner=Owner.DEVELOPER),
    _review("insufficient_evidence", "The model says that the text does not tell."),
    _review("no_confidence_signal", "The contract has no confidence field."),
    _review("no_threshold", "The route accepts nothing by itself."),
    _review("low_confidence", "The confidence is below the threshold."),
    _transient("provider_timeout", "No whole answer within the deadline, 408, 504 or 524."),
    _transient("provider_connection", "No connection, or one that broke off.", UsesUp.AGE, Owner.ON_CALL),
    _transient("provider_rate_limited", "429: more than the account's limit.", UsesUp.AGE, Owner.NOBODY),
    _transient("provider_overloaded", "503, 529, 409 or 425: the vendor has too much to do."),
    _transient("provider_server_error", "Another 5xx, or an answer that the vendor broke off."),
    _transient("provider_bad_reply", "What came back is no reply of the vendor: HTML, cut JSON, no choices."),
    _transient("provider_adapter_error", "assay's adapter failed.", owner=Owner.DEVELOPER),
    _stops("provider_auth", "401, 403 or 407: the key is refused."),
    _stops("provider_model_unknown", "404, or the vendor knows no such model."),
    _stops("provider_quota", "402, or the account's quota is used up.", Owner.BUDGET_OWNER),
    _stops("provider_settings_rejected", "A redirect, a wrong address, or a refused field of the pipeline."),
    _refused(
        "provider_refused", FailureClass.POLICY, Owner.POLICY_OWNER, "The vendor refuses this content."
    ),
    _refused(
        "provider_request_rejected", FailureClass.CONTRACT, Owner.DATA_ENGINEER,
        "400, 413 or 422: the vendor refuses this one request, as too long for example.",
    ),
    _refused(
        "recorded_answer_ambiguous", FailureClass.CONTRACT, Owner.DATA_ENGINEER,
        "The file of recorded answers has this record's id twice.",
    ),
    FailureRule(
        "attempts_exhausted", Origin.LIMIT, FailureClass.TRANSIENT, False, UsesUp.NOTHING,
        Destination.QUARANTINED, Owner.ON_CALL, "The task's attempts are used up.",
    ),
    FailureRule(
        "age_exhausted", Origin.LIMIT, FailureClass.TRANSIENT, False, UsesUp.NOTHING,
        Destination.QUARANTINED, Owner.ON_CALL, "The task has failed for longer than its age limit.",
    ),
    _waits("breaker_open", FailureClass.TRANSIENT, Owner.NOBODY, "Too many calls failed: a probe decides."),
    _waits("drained", FailureClass.TRANSIENT, Owner.NOBODY, "The worker stopped in good order."),
    _waits("spend_cap_reached", FailureClass.CONFIGURATION, Owner.BUDGET_OWNER, "The spend cap is reached."),
    _waits("version_stopped", FailureClass.CONFIGURATION, Owner.ON_CALL, "The pipeline version is stopped."),
    _waits(
        "low_priority_paused", FailureClass.CONFIGURATION, Owner.ON_CALL, "A command pauses low priority."
    ),
    _waits("isolated_fixed", FailureClass.TRANSIENT, Owner.NOBODY, "Isolated, then fixed: it is due."),
    FailureRule(
        "text_unreadable", Origin.INPUT, FailureClass.CONFIGURATION, False, UsesUp.NOTHING,
        Destination.QUARANTINED, Owner.ON_CALL, "The record's sealed text does not open.",
    ),
    FailureRule(
        "input_schema_invalid", Origin.INPUT, FailureClass.CONTRACT, False, UsesUp.NOTHING,
        Destination.ISOLATED, Owner.DATA_ENGINEER,
        "A piece of the source is no record: not UTF-8, not JSON, wrong fields, too large.",
    ),
    FailureRule(
        "input_version_conflicts_with_content", Origin.INPUT, FailureClass.VERSION, False, UsesUp.NOTHING,
        Destination.ISOLATED, Owner.DATA_ENGINEER, "Other content under an identity that is taken.",
    ),
    FailureRule(
        "model_changed", Origin.VERSION, FailureClass.VERSION, False, UsesUp.NOTHING,
        Destination.EVENT, Owner.ON_CALL, "The vendor answers with another model than before.",
    ),
    FailureRule(
        "version_rolled_back", Origin.VERSION, FailureClass.VERSION, False, UsesUp.NOTHING,
        Destination.QUARANTINED, Owner.ON_CALL, "The version was rolled back; the output is withdrawn.",
    ),
)  # fmt: skip

FAILURE_TABLE: Final = MappingProxyType({rule.code: rule for rule in _ROWS})


def uses_attempt(code: str) -> bool:
    """Whether a failure under this code uses up an attempt; an unknown code does, to be bounded."""
    rule = FAILURE_TABLE.get(code)
    return rule is None or rule.uses_up is UsesUp.ATTEMPT
