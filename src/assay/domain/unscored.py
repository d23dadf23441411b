"""Fields that are no values of the document: confidences, quotes and reasons. They have no gold."""

from __future__ import annotations

from collections.abc import Iterator

from assay.domain.contract import Contract, plan_of
from assay.domain.findings import ANY_KEY, pointer
from assay.domain.markers import ReasonMark
from assay.domain.nodes import ListNode, MapNode, Node, TextNode, TupleNode
from assay.domain.objects import ObjectNode, UnionNode
from assay.domain.signals import is_confidence


def unscored(contract: type[Contract]) -> frozenset[str]:
    """JSON Pointers of such fields, `*` for items and keys from data; below them nothing is scored either."""
    return frozenset(_found(plan_of(contract).root, [], ()))


def _found(node: Node, trail: list[str], above: tuple[Node, ...]) -> Iterator[str]:
    if is_confidence(node) or (isinstance(node, TextNode) and node.quoted is not None):
        yield pointer([*trail])
        return
    for step, child, is_reason in _inner(node, above):
        path = trail if step is None else [*trail, step]
        if is_reason:
            yield pointer([*path])
        else:
            yield from _found(child, path, (*above, node))


def _inner(node: Node, above: tuple[Node, ...]) -> list[tuple[str | None, Node, bool]]:
    """What a node holds, and whether it is a stated reason; a contract inside itself is followed once."""
    match node:
        case ObjectNode() if node not in above:
            infos = node.contract.model_fields
            return [
                (field.key, field.node, any(isinstance(m, ReasonMark) for m in infos[field.name].metadata))
                for field in node.fields
            ]
        case UnionNode():
            return [(None, member, False) for member in node.members]
        case ListNode():
            return [(ANY_KEY, node.item, False)]
        case TupleNode():
            return [(str(index), item, False) for index, item in enumerate(node.items)]
        case MapNode():
            return [(ANY_KEY, node.value, False)]
    return []
