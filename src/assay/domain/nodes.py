"""A contract as a tree of nodes: each reads one place of a response strictly, without coercing anything.

A node turns JSON (`Json`) into the Python value that pydantic then checks for ranges, lengths, patterns and
the contract's own validators. What pydantic would coerce never reaches it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from types import NoneType
from typing import Any, Final, Protocol
from uuid import UUID

from assay.domain.findings import ANY_KEY, INVALID, Findings, Invalid
from assay.domain.json_text import Json, Number
from assay.domain.markers import Quoted
from assay.domain.numbers import is_whole, read_decimal, read_float, read_integer
from assay.domain.text import first_unstorable, shows_something

# Nesting below a contract's root; a recursive contract stops here, long before any recursion limit.
MAX_NESTING: Final = 100

Keywords = Mapping[str, Any]
"""Constraints in the words of JSON Schema, for the schema and the correction text."""


class Node(Protocol):
    """One place in a contract.

    `kinds`: the types of `Json` that it reads. `sensitive`: it is a leaf of sensitive text.
    """

    @property
    def kinds(self) -> frozenset[type]: ...

    @property
    def sensitive(self) -> bool: ...

    def lift(self, tree: Json, findings: Findings) -> object: ...


_STRING: Final = frozenset({str})
_NUMBER: Final = frozenset({Number})


@dataclass(frozen=True, slots=True, eq=False)
class TextNode:
    """Free text: storable, and not blank unless declared so. `quoted`: it must occur in the record's text."""

    sensitive: bool
    blank_allowed: bool
    keywords: Keywords = field(default_factory=dict)
    kinds: frozenset[type] = _STRING
    quoted: Quoted | None = None

    def lift(self, tree: Json, findings: Findings) -> object:
        if type(tree) is not str:
            return findings.wrong_type("string_type")
        if first_unstorable(tree) is not None:
            return findings.wrong_value("text_not_storable")
        if not self.blank_allowed and shows_something(tree) is None:
            return findings.wrong_value("text_blank")
        return tree


@dataclass(frozen=True, slots=True, eq=False)
class FormatNode:
    """Text in one exact format: a date, a time, a UUID, a decimal written as text."""

    name: str
    pattern: re.Pattern[str]
    read: Callable[[str], object]
    keywords: Keywords = field(default_factory=dict)
    kinds: frozenset[type] = _STRING
    sensitive: bool = False

    def lift(self, tree: Json, findings: Findings) -> object:
        if type(tree) is not str:
            return findings.wrong_type("string_type")
        if self.pattern.fullmatch(tree) is None:
            return findings.wrong_value(f"{self.name}_format")
        try:
            return self.read(tree)
        except ValueError:
            return findings.wrong_value(f"{self.name}_format")


@dataclass(frozen=True, slots=True, eq=False)
class NumberNode:
    """A number: an integer, a double, an exact decimal or a confidence."""

    name: str
    read: Callable[[str, Findings], object]
    keywords: Keywords = field(default_factory=dict)
    confidence: bool = False
    kinds: frozenset[type] = _NUMBER
    sensitive: bool = False

    def lift(self, tree: Json, findings: Findings) -> object:
        if type(tree) is not Number:
            return findings.wrong_type(f"{self.name}_type")
        return self.read(tree, findings)


@dataclass(frozen=True, slots=True, eq=False)
class BoolNode:
    """true or false."""

    kinds: frozenset[type] = frozenset({bool})
    sensitive: bool = False

    def lift(self, tree: Json, findings: Findings) -> object:
        return tree if type(tree) is bool else findings.wrong_type("bool_type")


@dataclass(frozen=True, slots=True, eq=False)
class NullNode:
    """null."""

    kinds: frozenset[type] = frozenset({NoneType})
    sensitive: bool = False

    def lift(self, tree: Json, findings: Findings) -> object:
        return None if tree is None else findings.wrong_type("none_required")


def _raw_key(raw: object) -> tuple[type, object]:
    """Distinguishes 1 from true: the type of `Json` that writes `raw`, and `raw`."""
    return (Number if type(raw) is int else type(raw)), raw


class ChoiceNode:
    """A closed list of values: Literal or Enum. `choices` are pairs of JSON value and Python value."""

    __slots__ = ("choices", "error_type", "kinds", "sensitive", "table")

    def __init__(self, choices: Iterable[tuple[str | int | bool | None, object]], error_type: str) -> None:
        self.choices = tuple(choices)
        self.error_type = error_type
        self.table = {_raw_key(raw): value for raw, value in self.choices}
        self.kinds = frozenset(kind for kind, _ in self.table)
        self.sensitive = False

    def lift(self, tree: Json, findings: Findings) -> object:
        kind = type(tree)
        if kind not in self.kinds:
            return findings.wrong_type(f"{self.error_type}_type")
        raw: object = tree
        if kind is Number and isinstance(tree, str):
            raw = int(tree) if len(tree) < 20 and is_whole(tree) else None
        value = self.table.get((kind, raw), INVALID)
        return findings.wrong_value(f"{self.error_type}_error") if value is INVALID else value


@dataclass(frozen=True, slots=True, eq=False)
class ListNode:
    """An array of like items."""

    item: Node
    keywords: Keywords = field(default_factory=dict)
    build: Callable[[list[object]], object] = list
    kinds: frozenset[type] = frozenset({list})
    sensitive: bool = False

    def lift(self, tree: Json, findings: Findings) -> object:
        if not isinstance(tree, list):
            return findings.wrong_type("list_type")
        trail = findings.trail
        if len(trail) >= MAX_NESTING:
            return findings.wrong_value("nesting_too_deep")
        before = findings.total
        lift = self.item.lift
        values: list[object] = []
        for index, item in enumerate(tree):
            trail.append(index)
            values.append(lift(item, findings))
            trail.pop()
        return self.build(values) if findings.total == before else INVALID


@dataclass(frozen=True, slots=True, eq=False)
class TupleNode:
    """An array of fixed length, each place with its own type."""

    items: tuple[Node, ...]
    kinds: frozenset[type] = frozenset({list})
    sensitive: bool = False

    def lift(self, tree: Json, findings: Findings) -> object:
        if not isinstance(tree, list):
            return findings.wrong_type("tuple_type")
        if len(findings.trail) >= MAX_NESTING:
            return findings.wrong_value("nesting_too_deep")
        before = findings.total
        values: list[object] = []
        for index, (node, item) in enumerate(zip(self.items, tree, strict=False)):
            findings.trail.append(index)
            values.append(node.lift(item, findings))
            findings.trail.pop()
        if len(tree) != len(self.items):
            findings.wrong_value("too_short" if len(tree) < len(self.items) else "too_long")
        return tuple(values) if findings.total == before else INVALID


@dataclass(frozen=True, slots=True, eq=False)
class MapNode:
    """An object whose keys come from data. Keys are text too; in paths they are `*`."""

    key: Node
    value: Node
    keywords: Keywords = field(default_factory=dict)
    kinds: frozenset[type] = frozenset({dict})
    sensitive: bool = False

    def lift(self, tree: Json, findings: Findings) -> object:
        if not isinstance(tree, dict):
            return findings.wrong_type("dict_type")
        if len(findings.trail) >= MAX_NESTING:
            return findings.wrong_value("nesting_too_deep")
        before = findings.total
        values: dict[object, object] = {}
        findings.trail.append(ANY_KEY)
        for key, item in tree.items():
            lifted = self.key.lift(key, findings)
            values[lifted] = self.value.lift(item, findings)
        findings.trail.pop()
        return values if findings.total == before else INVALID


FORMATS: Final[dict[type, tuple[str, re.Pattern[str], Callable[[str], object]]]] = {
    date: ("date", re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}"), date.fromisoformat),
    datetime: (
        "date-time",
        re.compile(
            r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?"
            r"(?:Z|[+-][0-9]{2}:[0-9]{2})?"
        ),
        datetime.fromisoformat,
    ),
    time: (
        "time",
        re.compile(r"[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?(?:Z|[+-][0-9]{2}:[0-9]{2})?"),
        time.fromisoformat,
    ),
    UUID: ("uuid", re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"), UUID),
}

# A thousand characters are more than any amount needs, and every database stores them.
DECIMAL_TEXT: Final = re.compile(r"(?=.{1,1000}\Z)-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")


def number_node(kind: type, keywords: Keywords, *, confidence: bool = False) -> NumberNode:
    """The node of int, float, Decimal, or a confidence (a float whose exact decimal value is used)."""
    if confidence:
        return NumberNode("float", _read_confidence, keywords, confidence=True)
    if kind is int:
        return NumberNode("int", read_integer, keywords)
    if kind is Decimal:
        return NumberNode("decimal", read_decimal, keywords)
    return NumberNode("float", read_float, keywords)


def _read_confidence(literal: str, findings: Findings) -> float | Invalid:
    exact = read_decimal(literal, findings)
    return exact if isinstance(exact, Invalid) else float(literal)


def enum_choices(kind: type[Enum]) -> list[tuple[str | int | bool | None, object]]:
    """JSON value and member of each member of an Enum. Raises `TypeError` for other member values."""
    choices: list[tuple[str | int | bool | None, object]] = []
    for member in kind:
        if not isinstance(member.value, str | int):
            raise TypeError(f"the members of {kind.__name__} must have str or int values")
        raw = member.value
        choices.append((str.__str__(raw) if isinstance(raw, str) else raw, member))
    return choices
