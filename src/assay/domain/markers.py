"""Marks that a contract's annotations may carry, and the named types made with them."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, TypeAlias

from annotated_types import Ge, Le, MaxLen, MinLen


@dataclass(frozen=True, slots=True)
class Plain:
    """This free text is not sensitive: `code: Annotated[str, Plain()]`."""


@dataclass(frozen=True, slots=True)
class BlankAllowed:
    """This text may be empty or show nothing: `note: Annotated[str, BlankAllowed()]`."""


@dataclass(frozen=True, slots=True)
class ConfidenceMark:
    """This number is a confidence signal."""


@dataclass(frozen=True, slots=True)
class DecimalTextMark:
    """This decimal is written as a JSON string."""


@dataclass(frozen=True, slots=True)
class ReasonMark:
    """This text is the model's stated reason."""


Confidence: TypeAlias = Annotated[float, Ge(0), Le(1), ConfidenceMark()]
"""A JSON number from 0 to 1; integers allowed, booleans not. Routes compare its exact decimal value."""

Reason: TypeAlias = Annotated[str, MinLen(1), MaxLen(300), ReasonMark()]
"""The model's stated reason: 1 to 300 characters, not blank, sensitive."""

DecimalText: TypeAlias = Annotated[Decimal, DecimalTextMark()]
"""An exact decimal written as a JSON string in plain notation, such as "60.30"."""
