"""The strict base of every contract, and what assay works out of a contract once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Unpack

from pydantic import BaseModel, ConfigDict

from assay.domain.findings import ANY_KEY, pointer
from assay.domain.nodes import ListNode, MapNode, Node, TextNode, TupleNode
from assay.domain.objects import ObjectNode, UnionNode
from assay.domain.plan import Planner, UnsupportedAnnotation
from assay.domain.signals import LOWEST, confidence_field, insufficient_values, label_field

DEFAULT_MAX_RESPONSE_BYTES: Final = 8192
_STRICT: Final = ConfigDict(strict=True, extra="forbid", frozen=True)
_FREE_CONFIG: Final = frozenset(
    {"title", "alias_generator", "protected_namespaces", "regex_engine", "use_attribute_docstrings"}
)


@dataclass(frozen=True, slots=True)
class ContractOptions:
    """What the class keywords of a contract say; None where they say nothing."""

    confidence: str | None = None
    label_field: str | None = None
    insufficient_evidence: Mapping[str, Any] = field(default_factory=dict)
    max_response_bytes: int = DEFAULT_MAX_RESPONSE_BYTES


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything assay needs to know of a contract, worked out once per class.

    `objects`: the contract and every one inside it. `insufficient`: fields with the values that say
    "insufficient evidence". `sensitive_paths`: JSON Pointers of the sensitive texts (`*` for an item or a
    key from data), `quotes` those of the quoted texts with the comparison that holds for them. `sees_text`:
    the contract cannot be judged without the record's text.
    """

    root: ObjectNode
    objects: tuple[ObjectNode, ...]
    by_contract: Mapping[type, ObjectNode]
    has_rules: bool
    confidence_field: str | None
    confidence_key: str | None
    label_field: str | None
    insufficient: tuple[tuple[str, object], ...]
    sensitive_paths: tuple[str, ...]
    quotes: Mapping[str, str]
    sees_text: bool
    max_response_bytes: int


class Contract(BaseModel):
    """What a response must be: strict types, no extra fields, no defaults, nothing coerced or repaired.

        class Ticket(Contract):
            category: Literal["billing", "technical", "other"]
            confidence: Confidence
            reason: Reason

    Class keywords: `confidence="score"` names the confidence signal (else the one top-level field annotated
    `Confidence`; with none nothing is accepted automatically), and `confidence="*"` makes it the lowest
    confidence anywhere in the answer; `insufficient_evidence={"category":
    "unclear"}` says how the model says that it cannot tell; `label_field="category"` is what `assay eval`
    compares; `max_response_bytes=8192` limits a response. A class that breaks the rules raises `TypeError`
    when it is defined, or at first use when its annotations name classes that come later.
    """

    model_config = _STRICT
    __assay_options__: ClassVar[ContractOptions] = ContractOptions()
    __assay_plan__: ClassVar[Plan | None] = None

    def __init_subclass__(
        cls,
        *,
        confidence: str | None = None,
        label_field: str | None = None,
        insufficient_evidence: Mapping[str, Any] | None = None,
        max_response_bytes: int | None = None,
        **config: Unpack[ConfigDict],
    ) -> None:
        super().__init_subclass__(**config)
        base = cls.__assay_options__
        limit = base.max_response_bytes if max_response_bytes is None else max_response_bytes
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise TypeError(f"{cls.__name__}: max_response_bytes is a number of bytes, 1 or more.")
        cls.__assay_options__ = ContractOptions(
            confidence or base.confidence,
            label_field or base.label_field,
            dict(base.insufficient_evidence if insufficient_evidence is None else insufficient_evidence),
            limit,
        )
        cls.__assay_plan__ = None

    @classmethod
    def __pydantic_init_subclass__(cls, **_keywords: Any) -> None:
        _check_class(cls)
        if cls.__pydantic_complete__ and not cls.__pydantic_generic_metadata__["parameters"]:
            plan_of(cls)


def is_contract(kind: object) -> bool:
    """Whether `kind` is a contract class of the user's (not the base itself)."""
    return isinstance(kind, type) and issubclass(kind, Contract) and kind is not Contract


def plan_of(contract: type[Contract]) -> Plan:
    """The plan of a contract, made once. Raises `TypeError`, one sentence, when the class breaks a rule."""
    known = contract.__dict__.get("__assay_plan__")
    if isinstance(known, Plan):
        return known
    planner = Planner(is_contract)
    root = planner.object_node(contract)
    objects = tuple(planner.objects.values())
    options = contract.__assay_options__
    signal = confidence_field(root, options.confidence)
    texts = tuple(_leaves(root, [], ()))
    quotes = {
        path: node.quoted.error_type
        for path, node in texts
        if isinstance(node, TextNode) and node.quoted is not None
    }
    plan = Plan(
        root=root,
        objects=objects,
        by_contract={node.contract: node for node in objects},
        has_rules=any(node.rules for node in objects),
        confidence_field=signal,
        confidence_key=None if signal in (None, LOWEST) else root.field(str(signal)).key,
        label_field=label_field(root, options.label_field),
        insufficient=insufficient_values(root, options.insufficient_evidence),
        sensitive_paths=tuple(path for path, node in texts if node.sensitive),
        quotes=quotes,
        sees_text=bool(quotes) or any(rule.sees_text for node in objects for rule in node.rules),
        max_response_bytes=options.max_response_bytes,
    )
    contract.__assay_plan__ = plan
    return plan


def _check_class(contract: type[Contract]) -> None:
    """No subclass loosens the base: only harmless settings differ, and validators only look."""
    name = contract.__name__
    for setting, value in contract.model_config.items():
        if setting not in _FREE_CONFIG and _STRICT.get(setting) != value:
            raise UnsupportedAnnotation(f"{name}: model_config {setting} is not for a contract; remove it.")
    decorators = contract.__pydantic_decorators__
    modes = {
        **{function: found.info.mode for function, found in decorators.field_validators.items()},
        **{function: found.info.mode for function, found in decorators.model_validators.items()},
    }
    for function, mode in modes.items():
        if mode != "after":
            raise UnsupportedAnnotation(
                f"{name}.{function}: a {mode} validator may repair a value; use mode='after'."
            )
    if contract.__private_attributes__:
        private = next(iter(contract.__private_attributes__))
        raise UnsupportedAnnotation(
            f"{name}.{private}: a contract has no private attributes; declare a field, or a ClassVar."
        )
    for function in ("__init__", "__new__", "model_post_init"):
        if getattr(contract, function) is not getattr(Contract, function):
            raise UnsupportedAnnotation(f"{name}.{function}: a contract does nothing of its own; use @rule.")


def _leaves(node: Node, trail: list[str | int], above: tuple[ObjectNode, ...]) -> Iterator[tuple[str, Node]]:
    """Pointers and nodes of what holds no other value; a contract inside itself is followed once."""
    inner: list[tuple[str | None, Node]] = []
    match node:
        case ObjectNode() if node not in above:
            above = (*above, node)
            inner = [(field.key, field.node) for field in node.fields]
        case UnionNode():
            inner = [(None, member) for member in node.members]
        case ListNode():
            inner = [(ANY_KEY, node.item)]
        case TupleNode():
            inner = [(str(place), item) for place, item in enumerate(node.items)]
        case MapNode():
            inner = [(ANY_KEY, node.key), (ANY_KEY, node.value)]
        case _:
            yield pointer(trail), node
    for step, child in inner:
        yield from _leaves(child, trail if step is None else [*trail, step], above)
