"""What stands at the leaves of an answer whose schema holds: its quotes and its confidences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

from assay.domain.findings import ANY_KEY, Findings
from assay.domain.json_text import Json, Number
from assay.domain.label import member_of
from assay.domain.nodes import ListNode, MapNode, Node, NumberNode, TextNode, TupleNode
from assay.domain.objects import ObjectNode
from assay.domain.quotes import folded, occurs
from assay.domain.rejection import RejectionCode

Leaf = tuple[tuple[str | int, ...], Node, Json]
"""Where a leaf is (declared keys, indexes, `*`), what reads it, and what was written."""


def leaves(node: Node, tree: Json, value: object, trail: tuple[str | int, ...] = ()) -> Iterator[Leaf]:
    """The leaves of `tree`, which `node` read as `value`, in the contract's order."""
    node = member_of(node, type(tree), value)
    if isinstance(node, ObjectNode) and isinstance(tree, dict):
        values = vars(value)
        for name, key, child in node.fields:
            yield from leaves(child, tree[key], values[name], (*trail, key))
    elif isinstance(node, MapNode) and isinstance(tree, dict) and isinstance(value, Mapping):
        for (key, item), lifted in zip(tree.items(), value.values(), strict=True):
            yield (*trail, ANY_KEY), node.key, key
            yield from leaves(node.value, item, lifted, (*trail, ANY_KEY))
    elif isinstance(tree, list) and isinstance(value, Sequence):
        yield from _items(node, tree, value, trail)
    else:
        yield trail, node, tree


def _items(
    node: Node, tree: list[Json], value: Sequence[object], trail: tuple[str | int, ...]
) -> Iterator[Leaf]:
    if isinstance(node, TupleNode):
        nodes: Sequence[Node] = node.items
    elif isinstance(node, ListNode):
        nodes = (node.item,) * len(tree)
    else:
        raise TypeError("an array was read by something else")
    for index, (child, item, lifted) in enumerate(zip(nodes, tree, value, strict=True)):
        yield from leaves(child, item, lifted, (*trail, index))


def check_quotes(root: Node, tree: Json, value: object, text: str, findings: Findings) -> None:
    """Records every quote that does not occur in the record's text, at its own path."""
    once: str | None = None
    for trail, node, item in leaves(root, tree, value):
        if not isinstance(node, TextNode) or node.quoted is None or not isinstance(item, str):
            continue
        if node.quoted.fold_whitespace:
            once = folded(text) if once is None else once
            found = occurs(folded(item), once)
        else:
            found = occurs(item, text)
        if not found:
            findings.trail.extend(trail)
            findings.add(RejectionCode.SEMANTIC_INVALID, node.quoted.error_type)
            findings.trail.clear()


def lowest_confidence(root: Node, tree: Json, value: object) -> Decimal | None:
    """The lowest confidence in the answer, exactly; None where it holds none."""
    return min(
        (
            Decimal(item)
            for _, node, item in leaves(root, tree, value)
            if isinstance(node, NumberNode) and node.confidence and isinstance(item, Number)
        ),
        default=None,
    )
