"""The source of a contract's rules and validators, in one normal form, for the pipeline's digest.

Comments, white space and docstrings are not part of it. What a rule uses from its own folder is: functions,
classes and constants that it names (`module.name` too), and methods that it calls on `self` or `cls`, all
the way down.
"""

from __future__ import annotations

import ast
import enum
import inspect
import re
import textwrap
from collections.abc import Iterator
from datetime import date, time
from decimal import Decimal
from pathlib import PurePath
from types import FunctionType, ModuleType
from typing import Final, get_args

from pydantic import AfterValidator

from assay.domain.contract import Contract, is_contract, plan_of
from assay.domain.failures import ConfigurationError
from assay.domain.objects import ObjectNode

_CONSTANTS: Final = (str, int, float, bool, type(None), Decimal, date, time, re.Pattern, enum.Enum)


def validator_sources(contract: type[Contract], *, declared: str | None) -> dict[str, str]:
    """Normal-form source, by name, of every rule and validator of the contract and of those inside it.

    Raises `ConfigurationError` when one cannot be read and no `rules_version` (`declared`) stands in for it.
    """
    found: dict[str, str] = {}
    for node in plan_of(contract).objects:
        for name, function in _functions(node):
            where = f"{node.contract.__name__}.{name}"
            try:
                _collect(where, function, node.contract, found)
            except (OSError, SyntaxError, TypeError) as error:
                if declared is None:
                    raise ConfigurationError(
                        f"The source of {where} cannot be read for the version; define it with def in "
                        "a file, or give the pipeline rules_version= and raise it when the function changes."
                    ) from error
    return dict(sorted(found.items()))


def _functions(node: ObjectNode) -> Iterator[tuple[str, object]]:
    """Rules, pydantic validators, and validators inside annotations of one contract class."""
    for rule in node.rules:
        yield rule.attribute, getattr(node.contract, rule.attribute)
    decorators = node.contract.__pydantic_decorators__
    for name, field_validator in decorators.field_validators.items():
        yield name, field_validator.func
    for name, model_validator in decorators.model_validators.items():
        yield name, model_validator.func
    post_init = node.contract.model_post_init
    if inspect.isfunction(post_init) and post_init.__module__ == node.contract.__module__:
        yield "model_post_init", post_init
    for name, info in node.contract.model_fields.items():
        for number, mark in enumerate(_after_validators([info.annotation, *info.metadata])):
            yield f"{name}.{number}", mark.func


def _after_validators(parts: list[object]) -> Iterator[AfterValidator]:
    for part in parts:
        if isinstance(part, AfterValidator):
            yield part
        elif not is_contract(part):
            yield from _after_validators([*get_args(part), *getattr(part, "metadata", ())])


def _collect(name: str, target: object, owner: type, found: dict[str, str]) -> None:
    """Adds the target's normal form under `name`, and what it uses under the names it uses."""
    if name in found:
        return
    function = getattr(target, "__func__", target)
    if not isinstance(function, FunctionType):
        raise TypeError(name)
    tree = _parsed(function)
    found[name] = ast.unparse(tree)
    folder = PurePath(function.__code__.co_filename).parent
    for used in sorted(_used_names(tree)):
        _collect_used(used, function, owner, folder, found)


def _parsed(target: FunctionType | type) -> ast.Module:
    """The syntax tree of one definition without docstrings. A lambda has no definition of its own."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(target)))
    if not isinstance(tree.body[0], ast.FunctionDef | ast.ClassDef):
        raise TypeError(target.__name__)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return tree


def _used_names(tree: ast.Module) -> set[tuple[str, bool]]:
    """Names that the code loads, dotted ones too, and attributes of `self` or `cls` (True)."""
    used: set[tuple[str, bool]] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            used.add((node.id, False))
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in ("self", "cls")
        ):
            used.add((node.attr, True))
        elif isinstance(node, ast.Attribute) and (dotted := _dotted(node)) is not None:
            used.add((dotted, False))
    return used


def _dotted(node: ast.expr) -> str | None:
    """`a.b.c` as text; None for an attribute of anything but a name."""
    if isinstance(node, ast.Name):
        return node.id
    before = _dotted(node.value) if isinstance(node, ast.Attribute) else None
    return f"{before}.{node.attr}" if before is not None and isinstance(node, ast.Attribute) else None


def _collect_used(
    used: tuple[str, bool], function: FunctionType, owner: type, folder: PurePath, found: dict[str, str]
) -> None:
    name, of_self = used
    value = inspect.getattr_static(owner, name, None) if of_self else _resolve(function, name, folder)
    value = getattr(value, "__func__", getattr(value, "fget", value))
    if isinstance(value, FunctionType):
        if _is_own(value.__code__.co_filename, folder):
            _collect(f"{owner.__name__}.{name}" if of_self else name, value, owner, found)
    elif isinstance(value, type):
        if not is_contract(value) and value is not owner and _is_local(value, folder):
            found.setdefault(name, ast.unparse(_parsed(value)))
    elif not of_self and _is_constant(value):
        found.setdefault(name, _constant_text(value))


def _resolve(function: FunctionType, dotted: str, folder: PurePath) -> object:
    """What a name means inside a function: closure first, then globals, then attributes of modules of the
    same folder; an unknown name is no constant."""
    name, *attributes = dotted.split(".")
    free = function.__code__.co_freevars
    value: object = function.__globals__.get(name, ...)
    if name in free and function.__closure__ is not None:
        value = function.__closure__[free.index(name)].cell_contents
    for attribute in attributes:
        file = getattr(value, "__file__", None) if isinstance(value, ModuleType) else None
        if not isinstance(file, str) or not _is_own(file, folder):
            return ...
        value = getattr(value, attribute, ...)
    return value


def _is_own(file: str, folder: PurePath) -> bool:
    """Whether a file is the pipeline's: in its folder, and not of a package installed in a `.venv` there."""
    path = PurePath(file)
    return path.is_relative_to(folder) and "site-packages" not in path.relative_to(folder).parts


def _is_local(kind: type, folder: PurePath) -> bool:
    try:
        return _is_own(inspect.getfile(kind), folder)
    except (OSError, TypeError):
        return False  # built in: its meaning is Python's


def _is_constant(value: object) -> bool:
    if isinstance(value, list | tuple | set | frozenset):
        return all(_is_constant(item) for item in value)
    if isinstance(value, dict):
        return all(_is_constant(key) and _is_constant(item) for key, item in value.items())
    return isinstance(value, _CONSTANTS)


def _constant_text(value: object) -> str:
    if isinstance(value, set | frozenset):
        return "{" + ", ".join(sorted(map(repr, value))) + "}"
    return repr(value)
