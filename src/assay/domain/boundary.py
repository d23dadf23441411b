"""The boundary: what a model answered becomes an accepted value or a rejection, and nothing in between."""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from dataclasses import field
from decimal import Decimal
from typing import Final

from assay.domain.contract import Contract, Plan, plan_of
from assay.domain.findings import ANY_KEY, Findings, pointer
from assay.domain.json_text import DuplicateKey, Json, JsonInvalid, Number, read_json
from assay.domain.label import emit_object
from assay.domain.leaves import check_quotes, lowest_confidence
from assay.domain.nodes import MAX_NESTING, ListNode, MapNode, Node, TupleNode
from assay.domain.objects import ObjectNode, UnionNode, ValueChanged
from assay.domain.rejection import FieldError, Rejected, RejectionCode, rejected
from assay.domain.rules_run import run_rules
from assay.domain.signals import LOWEST
from assay.domain.value import value

# `judge` answers every defect with a value. Control flow (KeyboardInterrupt and its like) passes.
_DEFECTS: Final = (Exception,)
_QUOTES_ALONE: Final = {RejectionCode.SEMANTIC_INVALID}


@value
class Accepted:
    """A response that the contract accepts.

    `label_json`: canonical JSON of the whole value, fields in the contract's order, numbers as written.
    `plain_json`: the same without sensitive leaves. `confidence`: the exact decimal of the signal, None
    where there is none. `value`: the contract's instance.
    """

    label_json: str = field(repr=False)
    plain_json: str
    has_sensitive: bool
    confidence: Decimal | None
    insufficient_evidence: bool
    value: Contract = field(repr=False)


def judge(
    contract: type[Contract],
    response: str | bytes,
    *,
    text: str | None = None,
    truncated: bool = False,
    max_response_bytes: int | None = None,
) -> Accepted | Rejected:
    """Judges the whole response against the contract. Pure, and never raises, whatever the response is.

    `text`: the record's text as the model got it, for quotes and for rules that see it; without it a contract
    that has such accepts nothing (`unexpected_parse_error`, `text_not_given`). `truncated`: the provider said
    that the token limit cut the answer. `max_response_bytes` replaces the contract's limit (bytes of UTF-8).
    """
    try:
        plan = plan_of(contract)
        limit = plan.max_response_bytes if max_response_bytes is None else max_response_bytes
        return _judge(plan, response, text, truncated, limit)
    except _DEFECTS as defect:
        return rejected(RejectionCode.UNEXPECTED_PARSE_ERROR, [FieldError("", _defect_name(defect))])


def _defect_name(defect: BaseException) -> str:
    """A name that can hold nothing of the response."""
    if isinstance(defect, ValueChanged):
        return "value_changed"
    name = type(defect).__name__
    return name if getattr(builtins, name, None) is type(defect) else "defect"


def _judge(
    plan: Plan, response: str | bytes, source: str | None, truncated: bool, limit: int
) -> Accepted | Rejected:
    if _is_larger(response, limit):
        return rejected(RejectionCode.RESPONSE_TOO_LARGE)
    if truncated:
        return rejected(RejectionCode.RESPONSE_TRUNCATED)
    try:
        text = response if isinstance(response, str) else response.decode("utf-8")
    except UnicodeDecodeError:
        return rejected(RejectionCode.JSON_INVALID, [FieldError("", "not_utf8")])
    if not text or text.isspace():
        return rejected(RejectionCode.RESPONSE_EMPTY)
    return _parse(plan, text, source)


def _parse(plan: Plan, text: str, source: str | None) -> Accepted | Rejected:
    try:
        tree = read_json(text)
    except JsonInvalid:
        return rejected(RejectionCode.JSON_INVALID)
    except DuplicateKey as twice:
        place = pointer(_declared(plan.root, twice.path))
        return rejected(RejectionCode.JSON_DUPLICATE_KEY, [FieldError(place, "duplicate_key")])
    return _read(plan, tree, source)


def _is_larger(response: str | bytes, limit: int) -> bool:
    """Whether the response has more than `limit` bytes of UTF-8 (a lone surrogate counts as three)."""
    if len(response) > limit:
        return True
    if isinstance(response, bytes) or len(response) * 4 <= limit or response.isascii():
        return False
    return len(response.encode("utf-8", "surrogatepass")) > limit


def _read(plan: Plan, tree: Json, source: str | None) -> Accepted | Rejected:
    findings = Findings()
    root = plan.root
    value = root.lift(tree, findings)
    if findings.total == 0 and plan.sees_text:
        if source is None:
            # A defect of the caller: nothing about this response can be said.
            return rejected(RejectionCode.UNEXPECTED_PARSE_ERROR, [FieldError("", "text_not_given")])
        if plan.quotes:
            check_quotes(root, tree, value, source, findings)
    if plan.has_rules and (findings.total == 0 or findings.by_code.keys() == _QUOTES_ALONE):
        run_rules(plan.by_contract, value, findings, source)
    if findings.total:
        return findings.rejection()
    if not isinstance(tree, dict) or not isinstance(value, Contract):
        raise TypeError("a contract reads objects alone")
    values = vars(value)
    label = emit_object(root, tree, value, plain=False)
    plain = emit_object(root, tree, value, plain=True)
    return Accepted(
        label_json=label,
        plain_json=plain,
        has_sensitive=label != plain,
        confidence=_confidence(plan, tree, value),
        insufficient_evidence=bool(plan.insufficient)
        and all(values[name] == wanted for name, wanted in plan.insufficient),
        value=value,
    )


def _confidence(plan: Plan, tree: dict[str, Json], value: Contract) -> Decimal | None:
    """The exact decimal of the signal."""
    if plan.confidence_field == LOWEST:
        return lowest_confidence(plan.root, tree, value)
    signal = None if plan.confidence_key is None else tree[plan.confidence_key]
    return Decimal(signal) if isinstance(signal, Number) else None


def _declared(node: Node, path: Iterable[str | int]) -> list[str | int]:
    """The path with every key that the contract does not declare written as `*`."""
    trail: list[str | int] = []
    at: Node | None = node
    for part in path:
        if isinstance(at, UnionNode):
            at = at.by_kind.get(list if isinstance(part, int) else dict)
        found: Node | None = None
        shown: str | int = part if isinstance(part, int) else ANY_KEY
        if isinstance(part, int):
            if isinstance(at, ListNode):
                found = at.item
            elif isinstance(at, TupleNode) and part < len(at.items):
                found = at.items[part]
        elif isinstance(at, ObjectNode):
            found = next((field.node for field in at.fields if field.key == part), None)
            shown = part if found is not None else ANY_KEY
        elif isinstance(at, MapNode):
            found = at.value
        trail.append(shown)
        at = found
        if at is None or len(trail) >= MAX_NESTING:
            break
    return trail
