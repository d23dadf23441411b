"""The accepted value as canonical JSON, whole and without its sensitive leaves.

Fields come in the contract's order, numbers as they were written, no white space. Text is not escaped to
ASCII. In the plain form a sensitive text is left out together with its key; an array or a map that holds
sensitive texts is left out whole, because gaps would say something too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from json.encoder import encode_basestring as quoted

from assay.domain.json_text import Json, Number
from assay.domain.nodes import ListNode, MapNode, Node, TupleNode
from assay.domain.objects import ObjectNode, UnionNode


def emit(node: Node, tree: Json, value: object, *, plain: bool) -> str | None:
    """JSON text of `tree`, which `node` read as `value`; None where the plain form leaves it out."""
    if type(tree) is str:
        return None if plain and is_sensitive_text(node) else quoted(tree)
    if type(tree) is Number:
        return str.__str__(tree)
    if isinstance(tree, dict):
        return _emit_dict(node, tree, value, plain=plain)
    if isinstance(tree, list):
        return _emit_list(node, tree, value, plain=plain)
    return "null" if tree is None else "true" if tree else "false"


def is_sensitive_text(node: Node) -> bool:
    """Whether a text read by this node is sensitive."""
    if isinstance(node, UnionNode):
        member = node.by_kind.get(str)
        return member is not None and member.sensitive
    return node.sensitive


def member_of(node: Node, kind: type, value: object) -> Node:
    """The member of a union that read this value; any other node is its own."""
    if not isinstance(node, UnionNode):
        return node
    for member in node.objects:
        if type(value) is member.contract:
            return member
    return node.by_kind[kind]


def _emit_dict(node: Node, tree: dict[str, Json], value: object, *, plain: bool) -> str | None:
    member = member_of(node, dict, value)
    if isinstance(member, ObjectNode):
        return emit_object(member, tree, value, plain=plain)
    if not isinstance(member, MapNode) or not isinstance(value, Mapping):
        raise TypeError("an object was read by something else")
    if plain and (member.key.sensitive or is_sensitive_text(member.value)):
        return None
    parts = []
    for (key, item), lifted in zip(tree.items(), value.values(), strict=True):
        text = emit(member.value, item, lifted, plain=plain)
        if text is None:
            return None
        parts.append(f"{quoted(key)}:{text}")
    return "{" + ",".join(parts) + "}"


def emit_object(node: ObjectNode, tree: dict[str, Json], value: object, *, plain: bool) -> str:
    """JSON text of an object of a contract, field by field."""
    values = vars(value)
    parts = []
    for name, key, child in node.fields:
        text = emit(child, tree[key], values[name], plain=plain)
        if text is not None:
            parts.append(f"{quoted(key)}:{text}")
    return "{" + ",".join(parts) + "}"


def _emit_list(node: Node, tree: list[Json], value: object, *, plain: bool) -> str | None:
    member = member_of(node, list, value)
    if not isinstance(value, Sequence):
        raise TypeError("an array was read by something else")
    if isinstance(member, ListNode):
        nodes: Sequence[Node] = (member.item,) * len(tree)
    elif isinstance(member, TupleNode):
        nodes = member.items
    else:
        raise TypeError("an array was read by something else")
    if plain and any(is_sensitive_text(item) for item in nodes):
        return None
    parts = []
    for child, item, lifted in zip(nodes, tree, value, strict=True):
        text = emit(child, item, lifted, plain=plain)
        if text is None:
            return None
        parts.append(text)
    return "[" + ",".join(parts) + "]"
