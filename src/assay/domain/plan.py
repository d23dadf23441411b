"""Turns a contract class into its tree of nodes, or says which annotation it cannot take."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Final, Literal, NewType, Union, get_args, get_origin

from annotated_types import GroupedMetadata
from pydantic import (
    BaseModel,
    BeforeValidator,
    InstanceOf,
    Json,
    PlainValidator,
    SkipValidation,
    StringConstraints,
    WrapValidator,
)
from pydantic.fields import FieldInfo

from assay.domain.constraints import keywords_of, overruled
from assay.domain.markers import BlankAllowed, ConfidenceMark, DecimalTextMark, Plain, Quoted
from assay.domain.nodes import (
    DECIMAL_TEXT,
    FORMATS,
    BoolNode,
    ChoiceNode,
    FormatNode,
    ListNode,
    MapNode,
    Node,
    NullNode,
    TextNode,
    TupleNode,
    enum_choices,
    number_node,
)
from assay.domain.objects import FieldPlan, ObjectNode, UnionNode
from assay.domain.rules import rules_of

_SUPPORTED: Final = (
    "use str, int, float, bool, Decimal, date, datetime, time, UUID, Literal, Enum, list, tuple, "
    "dict[str, ...], another Contract, a union of these, or None"
)


# What is said of a container's texts too.
_OF_TEXT: Final = (Plain, BlankAllowed, Quoted)


class UnsupportedAnnotation(TypeError):
    """An annotation that a contract cannot take. The text says where and what to use."""


class Planner:
    """Reads classes once: a contract that contains itself gets one node."""

    def __init__(self, is_contract: Callable[[object], bool]) -> None:
        self.is_contract = is_contract
        self.objects: dict[type[BaseModel], ObjectNode] = {}

    def object_node(self, contract: type[BaseModel]) -> ObjectNode:
        """The node of a contract class and of everything in it. Raises `UnsupportedAnnotation`."""
        known = self.objects.get(contract)
        if known is not None:
            return known
        if not contract.__pydantic_complete__:
            contract.model_rebuild()
        node = self.objects[contract] = ObjectNode(contract)
        fields = [self.field(contract, name, info) for name, info in contract.model_fields.items()]
        _check_keys(contract, fields)
        rules = rules_of(contract)
        _check_rules(contract, node, fields, [(rule.name, rule.fields) for rule in rules])
        node.fill(fields, rules)
        return node

    def field(self, contract: type[BaseModel], name: str, info: FieldInfo) -> FieldPlan:
        where = f"{contract.__name__}.{name}"
        if not info.is_required():
            raise UnsupportedAnnotation(
                f"{where} has a default; a contract has none: write `{name}: X | None` instead."
            )
        key = name if info.validation_alias is None else info.validation_alias
        if not isinstance(key, str):
            raise UnsupportedAnnotation(f"{where} has an alias with several paths; give one plain name.")
        return FieldPlan(name, key, self.node(info.annotation, list(info.metadata), where))

    def node(self, annotation: object, metadata: list[object], where: str) -> Node:
        """The node of an annotation with what `Annotated` or `Field` added to it."""
        annotation, metadata = _opened(annotation, metadata)
        marks = _flat(metadata, where)
        _refuse_repairing(marks, where)
        _refuse_overruled(marks, where)
        origin = get_origin(annotation)
        if origin in (Union, types.UnionType):
            node = self.union(get_args(annotation), marks, where)
        elif origin is Literal:
            node = _literal(get_args(annotation), where)
        elif origin in (list, tuple, dict):
            node = self.container(origin, get_args(annotation), marks, where)
        else:
            kind = types.NoneType if annotation is None else annotation
            if not isinstance(kind, type):
                raise _unsupported(annotation, where)
            node = self.object_node(kind) if self.is_contract(kind) else _leaf(kind, marks, where)
        return node

    def container(self, origin: type, arguments: tuple[Any, ...], marks: list[object], where: str) -> Node:
        keywords = keywords_of(marks)
        inherited = [mark for mark in marks if any(_has([mark], kind) for kind in _OF_TEXT)]
        if origin is dict:
            key = self.node(arguments[0], inherited, f"{where} (keys)")
            if not isinstance(key, TextNode | ChoiceNode) or key.kinds != frozenset({str}):
                raise UnsupportedAnnotation(f"{where}: keys of a dict must be str, Literal or a str Enum.")
            return MapNode(key, self.node(arguments[1], inherited, where), keywords)
        if origin is list or (len(arguments) == 2 and arguments[1] is Ellipsis):
            build: Callable[[list[object]], object] = list if origin is list else tuple
            return ListNode(self.node(arguments[0], inherited, where), keywords, build)
        return TupleNode(tuple(self.node(item, inherited, where) for item in arguments))

    def union(self, arguments: tuple[Any, ...], marks: list[object], where: str) -> Node:
        members = _merge_choices([self.node(item, marks, where) for item in arguments])
        by_kind: dict[type, Node] = {}
        objects: list[ObjectNode] = []
        for member in members:
            for kind in member.kinds:
                both_objects = isinstance(member, ObjectNode) and isinstance(by_kind.get(kind), ObjectNode)
                if kind in by_kind and not both_objects:
                    raise UnsupportedAnnotation(
                        f"{where}: two members of the union read the same kind of JSON; declare one of them."
                    )
                by_kind.setdefault(kind, member)
            if isinstance(member, ObjectNode):
                objects.append(member)
        others = [member for member in members if not isinstance(member, NullNode)]
        name = _kind_name(others[0]) if len(others) == 1 else "union"
        return UnionNode(tuple(members), tuple(objects), by_kind, frozenset(by_kind), f"{name}_type")


def _opened(annotation: object, metadata: list[object]) -> tuple[object, list[object]]:
    """What `Annotated`, `NewType` and `type X = ...` stand for, with the metadata they add."""
    while True:
        if get_origin(annotation) is Annotated:
            annotation, *more = get_args(annotation)
            metadata = [*more, *metadata]
        elif isinstance(annotation, NewType):
            annotation = annotation.__supertype__
        elif type(annotation).__name__ == "TypeAliasType":
            annotation = getattr(annotation, "__value__", None)
        else:
            return annotation, metadata


def _leaf(kind: type, marks: list[object], where: str) -> Node:
    """The node of a type that holds no other: text, number, bool, null, a format or an Enum."""
    keywords = keywords_of(marks)
    quoted = _quoted(kind, marks, where)
    node: Node
    if issubclass(kind, Enum):
        node = _enum(kind, where)
    elif kind is str:
        node = TextNode(not _has(marks, Plain), _has(marks, BlankAllowed), keywords, quoted=quoted)
    elif kind is bool:
        node = BoolNode()
    elif kind is types.NoneType:
        node = NullNode()
    elif kind is Decimal and _has(marks, DecimalTextMark):
        node = FormatNode("decimal", DECIMAL_TEXT, Decimal, keywords)
    elif kind in (int, float, Decimal):
        node = number_node(kind, keywords, confidence=_has(marks, ConfidenceMark))
    elif kind in FORMATS:
        node = FormatNode(*FORMATS[kind], keywords)
    else:
        raise _unsupported(kind, where)
    return node


def _quoted(kind: type, marks: list[object], where: str) -> Quoted | None:
    """How a text is quoted, if it is; a Quoted mark on anything else would check nothing."""
    found = [Quoted() if mark is Quoted else mark for mark in marks if _has([mark], Quoted)]
    if not found or kind is types.NoneType:
        return None
    if kind is not str:
        raise UnsupportedAnnotation(f"{where}: Quoted is for text; declare the quote as a str of its own.")
    last = found[-1]
    return last if isinstance(last, Quoted) else None


def _flat(metadata: Iterable[object], where: str) -> list[object]:
    """Metadata with groups and `Field(...)` opened."""
    flat: list[object] = []
    for item in metadata:
        if isinstance(item, FieldInfo):
            if not item.is_required():
                raise UnsupportedAnnotation(f"{where} has a default inside Annotated; a contract has none.")
            flat.extend(_flat(item.metadata, where))
        elif isinstance(item, StringConstraints | GroupedMetadata):
            flat.extend(_flat(item, where))
        else:
            flat.append(item)
    return flat


def _has(marks: list[object], mark: type) -> bool:
    return any(isinstance(item, mark) or item is mark for item in marks)


def _refuse_repairing(marks: list[object], where: str) -> None:
    for mark in marks:
        if _has([mark], Json) or isinstance(mark, SkipValidation | InstanceOf):
            name = mark.__name__ if isinstance(mark, type) else type(mark).__name__
            raise UnsupportedAnnotation(f"{where}: {name} is not supported; declare the type itself.")
        if isinstance(mark, BeforeValidator | PlainValidator | WrapValidator):
            raise UnsupportedAnnotation(
                f"{where}: {type(mark).__name__} may repair a value; use AfterValidator."
            )
        if any(getattr(mark, name, None) for name in ("strip_whitespace", "to_upper", "to_lower")):
            raise UnsupportedAnnotation(
                f"{where}: text is never changed; remove strip_whitespace, to_upper, to_lower."
            )


def _refuse_overruled(marks: list[object], where: str) -> None:
    attribute = overruled(marks)
    if attribute is not None:
        raise UnsupportedAnnotation(
            f"{where}: {attribute} is given twice and the looser one would hold; put the stricter one last, "
            f"as in Annotated[X, Field({attribute}=...)] instead of `= Field(...)`."
        )


def _unsupported(annotation: object, where: str) -> UnsupportedAnnotation:
    name = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    record = any(hasattr(annotation, name) for name in ("__dataclass_fields__", "__total__"))
    if record or (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        return UnsupportedAnnotation(f"{where}: {name} is not a Contract; derive it from assay.Contract.")
    return UnsupportedAnnotation(f"{where}: {name} is not supported; {_SUPPORTED}.")


def _literal(values: tuple[Any, ...], where: str) -> ChoiceNode:
    choices: list[tuple[str | int | bool | None, object]] = []
    for value in values:
        raw = value.value if isinstance(value, Enum) else value
        if raw is not None and not isinstance(raw, str | int):
            raise UnsupportedAnnotation(
                f"{where}: a Literal holds str, int, bool, None or members of an Enum."
            )
        choices.append((raw, value))
    return ChoiceNode(choices, "literal")


def _enum(kind: type[Enum], where: str) -> ChoiceNode:
    try:
        return ChoiceNode(enum_choices(kind), "enum")
    except TypeError as error:
        raise UnsupportedAnnotation(f"{where}: {error}.") from None


def _merge_choices(members: list[Node]) -> list[Node]:
    """Several Literals in a union are one."""
    choices = [
        member for member in members if isinstance(member, ChoiceNode) and member.error_type == "literal"
    ]
    if len(choices) < 2:
        return members
    merged = ChoiceNode([pair for choice in choices for pair in choice.choices], "literal")
    return [merged, *(member for member in members if member not in choices)]


def _kind_name(node: Node) -> str:
    names: Mapping[type, str] = {TextNode: "string", FormatNode: "string", BoolNode: "bool", MapNode: "dict"}
    if isinstance(node, ChoiceNode):
        return node.error_type
    name = getattr(node, "name", None)
    default = name if isinstance(name, str) else "object" if isinstance(node, ObjectNode) else "list"
    return names.get(type(node), default)


def _check_keys(contract: type[BaseModel], fields: list[FieldPlan]) -> None:
    keys = [field.key for field in fields]
    names = {field.name for field in fields}
    for field in fields:
        if keys.count(field.key) > 1 or (field.key != field.name and field.key in names):
            raise UnsupportedAnnotation(
                f"{contract.__name__}.{field.name}: the key is used by another field too."
            )


def _check_rules(
    contract: type[BaseModel],
    node: ObjectNode,
    fields: list[FieldPlan],
    rules: list[tuple[str, tuple[str, ...]]],
) -> None:
    names = {field.name for field in fields}
    seen: set[str] = set()
    for name, about in rules:
        if name in seen:
            raise UnsupportedAnnotation(
                f"{contract.__name__}: two rules are named {name}; give one another name."
            )
        seen.add(name)
        for field in about:
            if field not in names:
                raise UnsupportedAnnotation(
                    f"{contract.__name__}.{name}: fields= names {field}, which is no field."
                )
