"""Runs a contract's business rules on a value whose schema holds."""

from __future__ import annotations

from collections.abc import Mapping

from assay.domain.findings import ANY_KEY, Findings
from assay.domain.objects import ObjectNode
from assay.domain.rejection import RejectionCode
from assay.domain.rules import Rule


class RuleAnswer(Exception):
    """A rule returned something that is neither None nor a bool: a defect of the contract."""


def run_rules(
    objects: Mapping[type, ObjectNode], value: object, findings: Findings, text: str | None = None
) -> None:
    """Runs the rules of the value and of every contract inside it; failures become findings.

    `text` is the record's, for the rules that see it.
    """
    trail = findings.trail
    node = objects.get(type(value))
    if node is not None:
        values = vars(value)
        for field in node.fields:
            trail.append(field.key)
            run_rules(objects, values[field.name], findings, text)
            trail.pop()
        for rule in node.rules:
            if not _holds(rule, value, text):
                _record(node, rule, findings)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            trail.append(index)
            run_rules(objects, item, findings, text)
            trail.pop()
    elif isinstance(value, dict):
        trail.append(ANY_KEY)
        for item in value.values():
            run_rules(objects, item, findings, text)
        trail.pop()


def _holds(rule: Rule, value: object, text: str | None) -> bool:
    """Whether a rule holds. Its exception's text goes nowhere."""
    check = getattr(value, rule.attribute)
    try:
        answer: object = check(text) if rule.sees_text else check()
    except (ValueError, AssertionError):
        return False
    if answer is None or isinstance(answer, bool):
        return answer is not False
    raise RuleAnswer


def _record(node: ObjectNode, rule: Rule, findings: Findings) -> None:
    if not rule.fields:
        findings.add(RejectionCode.SEMANTIC_INVALID, rule.error_type)
    for name in rule.fields:
        findings.add_at(node.field(name).key, RejectionCode.SEMANTIC_INVALID, rule.error_type)
