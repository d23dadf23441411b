"""Fields of a contract that play a part: the confidence signal, the label, "insufficient evidence"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from assay.domain.findings import Findings
from assay.domain.json_text import Json, Number
from assay.domain.markers import ReasonMark
from assay.domain.nodes import ChoiceNode, ListNode, MapNode, Node, NumberNode, TupleNode
from assay.domain.objects import ObjectNode, UnionNode
from assay.domain.plan import UnsupportedAnnotation

LOWEST: Final = "*"
"""`confidence="*"`: the signal is the lowest confidence in the whole answer."""


def is_confidence(node: Node) -> bool:
    """Whether a field is annotated `Confidence`, alone or with None."""
    members = node.members if isinstance(node, UnionNode) else (node,)
    return any(isinstance(member, NumberNode) and member.confidence for member in members)


def confidence_field(root: ObjectNode, named: str | None) -> str | None:
    """The confidence signal: the one that is named, else the only field annotated `Confidence`, else None.

    `*` names the lowest of all, wherever in the answer they are.
    """
    contract = root.contract.__name__
    if named == LOWEST:
        if not _holds_confidence(root, ()):
            raise UnsupportedAnnotation(f'{contract}: confidence="*" needs a field annotated Confidence.')
        return named
    signals = [field.name for field in root.fields if is_confidence(field.node)]
    if named is not None:
        if named not in signals:
            raise UnsupportedAnnotation(
                f'{contract}: confidence="{named}" must name a top-level field annotated Confidence.'
            )
        return named
    if len(signals) > 1:
        raise UnsupportedAnnotation(
            f"{contract}: {', '.join(signals)} are all Confidence; name one with confidence= after Contract."
        )
    return signals[0] if signals else None


def _holds_confidence(node: Node, above: tuple[Node, ...]) -> bool:
    """Whether a confidence stands anywhere below; a contract inside itself is followed once."""
    inner: list[Node] = []
    match node:
        case ObjectNode() if node not in above:
            inner = [field.node for field in node.fields]
        case UnionNode():
            inner = list(node.members)
        case ListNode():
            inner = [node.item]
        case TupleNode():
            inner = list(node.items)
        case MapNode():
            inner = [node.value]
    return is_confidence(node) or any(_holds_confidence(child, (*above, node)) for child in inner)


def label_field(root: ObjectNode, named: str | None) -> str | None:
    """What is compared with gold: the named field, else the only closed list, else the only field that is
    neither confidence nor reason, else None."""
    if named is not None:
        if named not in {field.name for field in root.fields}:
            raise UnsupportedAnnotation(
                f'{root.contract.__name__}: label_field="{named}" is not one of its fields.'
            )
        return named
    choices = [field.name for field in root.fields if _is_choice(field.node)]
    if len(choices) == 1:
        return choices[0]
    infos = root.contract.model_fields
    others = [
        field.name
        for field in root.fields
        if not is_confidence(field.node)
        and not any(isinstance(mark, ReasonMark) for mark in infos[field.name].metadata)
    ]
    return others[0] if len(others) == 1 else None


def _is_choice(node: Node) -> bool:
    members = node.members if isinstance(node, UnionNode) else (node,)
    return any(isinstance(member, ChoiceNode) for member in members)


def insufficient_values(root: ObjectNode, wanted: Mapping[str, Any]) -> tuple[tuple[str, object], ...]:
    """Each field of `insufficient_evidence` with its value as the contract reads it."""
    contract = root.contract.__name__
    lifted: list[tuple[str, object]] = []
    for name, value in wanted.items():
        if name not in {field.name for field in root.fields}:
            raise UnsupportedAnnotation(f"{contract}: insufficient_evidence names {name}, which is no field.")
        findings = Findings()
        tree: Json = Number(repr(value)) if type(value) in (int, float) else value
        result = root.field(name).node.lift(tree, findings)
        if findings.total:
            raise UnsupportedAnnotation(
                f"{contract}: insufficient_evidence gives {name} a value that it cannot have."
            )
        lifted.append((name, result))
    return tuple(lifted)
