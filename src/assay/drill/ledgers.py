"""Both ledgers, side by side. Every figure is counted from evidence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from assay.drill.evidence import Audit, Evidence, Label, VendorCall

CANDIDATE: Final = "auto_candidate"
# A reply under one of these holds no category at all.
_NO_ANSWER: Final = frozenset({"truncation", "refusal"})
_REPLIED: Final = 200


@dataclass(frozen=True, slots=True)
class Side:
    """What either side paid, and what it let into training.

    `paid_again`: paid calls for a ticket that already had a paid first answer, corrections left out. Of the
    labels, `wrong` differ from gold; the four that follow come from replies that are no answer under the
    contract: cut out of prose, with a string made a number, with a field dropped, made up. `duplicates`:
    labels of a ticket that has one already.
    """

    calls: int
    paid: int
    paid_again: int
    cost: Decimal
    labels: int
    wrong: int
    out_of_prose: int
    coerced: int
    field_dropped: int
    fabricated: int
    duplicates: int


@dataclass(frozen=True, slots=True)
class Account:
    """What the product knows beyond that: where every record went, and what it absorbed."""

    states: Mapping[str, int]
    first_answers: int
    first_pass_failures: Mapping[str, int]
    corrections: int
    corrected: int
    quarantined_by_code: Mapping[str, int]
    unknown_calls: int
    duplicates_absorbed: int
    events: int
    published: int
    delivered: int
    distinct_delivered: int
    applied: int
    audit: Audit


@dataclass(frozen=True, slots=True)
class Ledgers:
    """The drill's result. `messages` counts each message, `replayed` those of them that came once more."""

    tickets: int
    messages: int
    replayed: int
    script: Side
    assay: Side
    account: Account
    broken: Sequence[str] = field(default_factory=tuple)


def ledgers_of(found: Evidence, broken: Sequence[str]) -> Ledgers:
    """Count."""
    candidates = [task.label for task in found.tasks if task.state == CANDIDATE]
    return Ledgers(
        tickets=len(set(found.produced)), messages=len(found.produced),
        replayed=len(found.produced) - len(set(found.produced)),
        script=_side(found.gold, found.script_calls, found.training),
        assay=_side(found.gold, found.assay_calls, candidates),
        account=_account(found), broken=tuple(broken),
    )  # fmt: skip


def _side(gold: Mapping[str, str], calls: Sequence[VendorCall], labels: Sequence[Label]) -> Side:
    replies = {call.request_id: call for call in calls}
    kinds = Counter(kind_of(replies.get(label.request_id or "")) for label in labels)
    paid = [call for call in calls if call.billed]
    first = [call for call in paid if not is_correction(call)]
    return Side(
        calls=len(calls), paid=len(paid),
        paid_again=len(first) - len({call.text_sha256 for call in first}),
        cost=sum((call.cost for call in calls), Decimal(0)),
        labels=len(labels), wrong=sum(label.category != gold[label.record_id] for label in labels),
        out_of_prose=kinds["out_of_prose"], coerced=kinds["coerced"], field_dropped=kinds["field_dropped"],
        fabricated=kinds["fabricated"],
        duplicates=len(labels) - len({label.record_id for label in labels}),
    )  # fmt: skip


def kind_of(call: VendorCall | None) -> str:
    """What a label is that was made of this call's reply: `answered` where the reply was one."""
    if call is None or call.status != _REPLIED or call.fault in _NO_ANSWER:
        return "fabricated"
    match call.fault:
        case None:
            return "answered"
        case "prose_prefix":
            return "out_of_prose"
        case "string_confidence":
            return "coerced"
        case "extra_field":
            return "field_dropped"
    return "fabricated"


def is_correction(call: VendorCall) -> bool:
    """Whether the call is a second pass, by the key that it carried."""
    return call.key is not None and call.key.endswith(".2")


def _account(found: Evidence) -> Account:
    first = [call for call in found.ledger if call.pass_number == 1]
    second = [call for call in found.ledger if call.pass_number != 1]
    refused = [call for call in first if call.outcome == "rejected"]
    dead = [task for task in found.tasks if task.state == "quarantined"]
    delivered = [event for event, _ in found.downstream.deliveries]
    return Account(
        states=dict(Counter(task.state for task in found.tasks)),
        first_answers=sum(call.outcome in ("accepted", "rejected") for call in first),
        first_pass_failures=dict(Counter(call.code or "" for call in refused)),
        corrections=len(second), corrected=sum(call.outcome == "accepted" for call in second),
        quarantined_by_code=dict(Counter(task.error_code or "" for task in dead)),
        unknown_calls=sum(call.outcome == "outcome_unknown" for call in found.ledger),
        duplicates_absorbed=found.messages[1],
        events=len(found.events), published=sum(found.events.values()),
        delivered=len(delivered), distinct_delivered=len(set(delivered)),
        applied=sum(applied for _, applied in found.downstream.deliveries), audit=found.audit,
    )  # fmt: skip
