"""The source of a contract's rules and validators, in one normal form, for the pipeline's digest.

Comments, white space and docstrings are not part of it. What a rule uses from its own folder is: functions,
classes and values that it names (`module.name` too), and what it reads of `self` or `cls`, all the way down.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import PurePath
from types import FunctionType, MethodType
from typing import Final, get_args

from pydantic import AfterValidator

from assay.domain.contract import Contract, is_contract, plan_of
from assay.domain.objects import ObjectNode
from assay.domain.source_reader import SourceReader, Texts

_NOWHERE: Final = PurePath("<no file>")


def validator_sources(contract: type[Contract], *, declared: str | None) -> dict[str, str]:
    """Normal-form source, by name, of every rule and validator of the contract and of those inside it.

    Equal in every process and every supported Python version. Raises `ConfigurationError` when something
    cannot be read and no `rules_version` (`declared`) stands in for it.
    """
    texts = Texts()
    objects = plan_of(contract).objects
    contracts = frozenset(node.contract for node in objects)
    for node in objects:
        for name, function, home in _functions(node):
            SourceReader(
                f"{node.contract.__name__}.{name}",
                node.contract,
                contracts=contracts,
                folders=(_folder(node.contract), _folder(home)),
                texts=texts,
                declared=declared,
            ).read(function)
    return dict(sorted(texts.by_name.items()))


def _folder(home: object) -> PurePath:
    """The folder of the file that defines a function or class."""
    target = home.__func__ if isinstance(home, MethodType) else home
    try:
        if isinstance(target, FunctionType):
            return PurePath(inspect.unwrap(target).__code__.co_filename).parent
        return PurePath(inspect.getfile(target)).parent if isinstance(target, type) else _NOWHERE
    except (OSError, TypeError):
        return _NOWHERE


def _functions(node: ObjectNode) -> Iterator[tuple[str, object, object]]:
    """Rules, pydantic validators, and validators inside annotations of one contract class.

    Each with its name and what has it: a method itself, which may be inherited from a file elsewhere, or
    the class whose annotation names a function, which may be anyone's.
    """
    for rule in node.rules:
        method = getattr(node.contract, rule.attribute)
        yield rule.attribute, method, method
    decorators = node.contract.__pydantic_decorators__
    for validators in (decorators.field_validators, decorators.model_validators):
        for name, validator in validators.items():
            yield name, validator.func, validator.func
    for name, info in node.contract.model_fields.items():
        for number, mark in enumerate(_after_validators([info.annotation, *info.metadata])):
            yield f"{name}.{number}", mark.func, node.contract


def _after_validators(parts: list[object]) -> Iterator[AfterValidator]:
    for part in parts:
        if isinstance(part, AfterValidator):
            yield part
        elif not is_contract(part):
            yield from _after_validators([*get_args(part), *getattr(part, "metadata", ())])
