"""Objects of a contract: declared fields alone, then the constraints and validators that pydantic runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core.core_schema import ErrorType

from assay.domain.findings import ANY_KEY, INVALID, Findings, Invalid
from assay.domain.json_text import Json
from assay.domain.nodes import MAX_NESTING, Node
from assay.domain.rejection import RejectionCode
from assay.domain.rules import Rule

_KNOWN_ERRORS: Final[frozenset[str]] = frozenset(get_args(ErrorType))
_OTHER_TYPE_ERRORS: Final = frozenset({"is_instance_of", "none_required", "literal_error", "enum"})
_MANY_ERRORS: Final = 10_000
_ABSENT: Final = Invalid()


class ValueChanged(Exception):
    """A validator of the contract returned another value than it was given: a repair, and a defect."""


class FieldPlan(NamedTuple):
    """A declared field: its Python name, its key in JSON, and how it is read."""

    name: str
    key: str
    node: Node


class ObjectNode:
    """A contract class. `fields` and `rules` are filled once the class is known (contracts may recurse)."""

    __slots__ = ("contract", "fields", "keys", "kinds", "rules", "sensitive")

    def __init__(self, contract: type[BaseModel]) -> None:
        self.contract = contract
        self.fields: tuple[FieldPlan, ...] = ()
        self.keys: frozenset[str] = frozenset()
        self.rules: tuple[Rule, ...] = ()
        self.kinds: frozenset[type] = frozenset({dict})
        self.sensitive = False

    def fill(self, fields: Sequence[FieldPlan], rules: tuple[Rule, ...]) -> None:
        self.fields = tuple(fields)
        self.keys = frozenset(field.key for field in fields)
        self.rules = rules

    def field(self, name: str) -> FieldPlan:
        """The declared field of that Python name. Raises `KeyError`."""
        for field in self.fields:
            if field.name == name:
                return field
        raise KeyError(name)

    def lift(self, tree: Json, findings: Findings) -> object:
        if not isinstance(tree, dict):
            return findings.wrong_type("object_type")
        trail = findings.trail
        if len(trail) >= MAX_NESTING:
            return findings.wrong_value("nesting_too_deep")
        before = findings.total
        values: dict[str, object] = {}
        present = 0
        for name, key, node in self.fields:
            item = tree.get(key, _ABSENT)
            if isinstance(item, Invalid):
                findings.add_at(key, RejectionCode.SCHEMA_VALIDATION_ERROR, "missing")
                values[name] = INVALID
                continue
            present += 1
            trail.append(key)
            found = findings.total
            value = node.lift(item, findings)
            values[name] = value if findings.total == found else INVALID
            trail.pop()
        if present != len(tree):
            for key in tree:
                if key not in self.keys:
                    findings.add_at(ANY_KEY, RejectionCode.SCHEMA_EXTRA_FIELD, "extra_forbidden")
        return self.build(values, findings, clean=findings.total == before)

    def build(self, values: dict[str, object], findings: Findings, *, clean: bool) -> object:
        """The instance that pydantic makes of the values, or INVALID with its errors recorded."""
        try:
            built: BaseModel = self.contract.__pydantic_validator__.validate_python(
                values, by_alias=False, by_name=True
            )
        except ValidationError as error:
            self.record(error, values, findings)
            return INVALID
        if not clean:
            return INVALID
        if type(built) is not self.contract or built.__dict__ != values:
            raise ValueChanged
        return built

    def record(self, error: ValidationError, values: Mapping[str, object], findings: Findings) -> None:
        """Records pydantic's errors, except those at fields that were refused before."""
        if error.error_count() > _MANY_ERRORS:
            findings.wrong_value("many_errors")  # listing them all could take more memory than the response
            return
        found: dict[tuple[str | int, ...], list[str]] = {}
        for line in error.errors(include_url=False, include_context=False, include_input=False):
            trail = self._trail(line["loc"], values)
            if trail is not None:
                known = line["type"] if line["type"] in _KNOWN_ERRORS else "custom_error"
                found.setdefault(trail, []).append(known)
        for trail, types in found.items():
            findings.trail.extend(trail)
            # Types hold by now: at a union, the members of another type only say that they are not meant.
            for error_type in [name for name in types if not _is_about_type(name)] or types:
                findings.add(_code(error_type), error_type)
            del findings.trail[len(findings.trail) - len(trail) :]

    def _trail(
        self, place: Sequence[str | int], values: Mapping[str, object]
    ) -> tuple[str | int, ...] | None:
        """Where in the data an error of pydantic is; None at a field that was refused before."""
        if not place:
            return ()
        for field in self.fields:
            if place[0] in (field.name, field.key):
                value = values[field.name]
                return None if value is INVALID else (field.key, *_steps(place[1:], value))
        return ()


def _is_about_type(error_type: str) -> bool:
    return error_type.endswith("_type") or error_type in _OTHER_TYPE_ERRORS


def _code(error_type: str) -> RejectionCode:
    if error_type.endswith("_type"):
        return RejectionCode.SCHEMA_TYPE_ERROR
    return RejectionCode.SCHEMA_VALIDATION_ERROR


def _steps(place: Sequence[str | int], value: object) -> list[str | int]:
    """The steps of an error's place that are steps in the data; the names of union members are not."""
    steps: list[str | int] = []
    for part in place:
        if isinstance(value, list | tuple) and isinstance(part, int) and part < len(value):
            steps.append(part)
            value = value[part]
        elif isinstance(value, dict) and part in value:
            steps.append(ANY_KEY)
            value = value[part]
    return steps


@dataclass(frozen=True, slots=True, eq=False)
class UnionNode:
    """One of several types, told apart by their JSON kind; several contracts are tried in order."""

    members: tuple[Node, ...]
    objects: tuple[ObjectNode, ...]
    by_kind: Mapping[type, Node]
    kinds: frozenset[type]
    error_type: str
    sensitive: bool = False

    def lift(self, tree: Json, findings: Findings) -> object:
        kind = type(tree)
        if kind is dict and len(self.objects) > 1:
            return self.lift_object(tree, findings)
        node = self.by_kind.get(kind)
        return findings.wrong_type(self.error_type) if node is None else node.lift(tree, findings)

    def lift_object(self, tree: Json, findings: Findings) -> object:
        """The first contract that accepts the object; else the findings of the one that is nearest."""
        trials: list[Findings] = []
        for node in self.objects:
            trial = Findings(list(findings.trail))
            value = node.lift(tree, trial)
            if trial.total == 0:
                return value
            trials.append(trial)
        findings.merge(min(trials, key=lambda trial: _distance(trial, len(findings.trail))))
        return INVALID


def _distance(trial: Findings, depth: int) -> tuple[bool, bool, bool, int]:
    """How far an object is from a contract: a tag that names another one counts most."""
    values = trial.by_code.get(RejectionCode.SCHEMA_VALIDATION_ERROR, [])
    tag_differs = any(
        error.type in ("literal_error", "enum_error") and error.path.count("/") == depth + 1
        for error in values
    )
    extra = RejectionCode.SCHEMA_EXTRA_FIELD in trial.by_code
    return tag_differs, extra, RejectionCode.SCHEMA_TYPE_ERROR in trial.by_code, trial.total
