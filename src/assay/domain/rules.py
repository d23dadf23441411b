"""Business rules: methods of a contract, with a name and a version that are part of the pipeline's digest."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

_MARK: Final = "__assay_rule__"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,62}")

Method = TypeVar("Method", bound=Callable[..., object])


class Rule(NamedTuple):
    """A business rule: `attribute` is the method, `fields` the contract's fields that it is about.

    `sees_text`: the method takes the record's text.
    """

    attribute: str
    name: str
    version: int
    fields: tuple[str, ...]
    sees_text: bool = False

    @property
    def error_type(self) -> str:
        """How a rejection names this rule."""
        return f"{self.name}@{self.version}"


def rule(
    *, version: int, name: str | None = None, fields: tuple[str, ...] = ()
) -> Callable[[Method], Method]:
    """Marks a method of a contract as a business rule.

    It runs after the whole schema holds, with exact decimals in place. It refuses by raising `ValueError`
    or `AssertionError` (whose text goes nowhere) or by returning False; None and True pass; anything else
    is a defect. A method with one more parameter, `def shown(self, text: str)`, is given the record's text,
    exactly as the model got it. `name` defaults to the method's; `fields` are the fields a rejection points
    at. Raise `version` whenever the rule's meaning changes.
    """
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise TypeError("@rule needs version=, an integer of 1 or more")
    if not isinstance(fields, tuple) or not all(isinstance(field, str) for field in fields):
        raise TypeError('@rule needs fields= as a tuple of field names, for example fields=("total",)')

    def mark(method: Method) -> Method:
        if not inspect.isfunction(method) or inspect.iscoroutinefunction(method):
            raise TypeError(
                "@rule goes on an ordinary method of a Contract (not async, static or class method)"
            )
        chosen = method.__name__ if name is None else name
        if not _NAME.fullmatch(chosen):
            raise TypeError("a rule's name is letters, digits, '_', '-' and '.', at most 63 characters")
        setattr(method, _MARK, Rule(method.__name__, chosen, version, fields, _sees_text(method)))
        return method

    return mark


def _sees_text(method: Callable[..., object]) -> bool:
    """Whether the method takes the record's text; a parameter with a default is the method's own business."""
    wanted = [
        parameter
        for parameter in inspect.signature(method).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    if len(wanted) > 2 or any(parameter.kind is parameter.KEYWORD_ONLY for parameter in wanted):
        raise TypeError("a rule takes self, or self and the record's text, and nothing else")
    return len(wanted) == 2


def rules_of(contract: type) -> tuple[Rule, ...]:
    """The rules of a contract class, inherited ones first, in the order they were written."""
    found: dict[str, Rule] = {}
    for owner in reversed(contract.__mro__):
        for attribute, value in vars(owner).items():
            marked = getattr(value, _MARK, None) if inspect.isfunction(value) else None
            if isinstance(marked, Rule):
                found[attribute] = marked._replace(attribute=attribute)
            else:
                found.pop(attribute, None)  # overridden without @rule: no longer a rule
    return tuple(found.values())
