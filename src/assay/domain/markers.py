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
class Quoted:
    """This text is copied from the record's text and must occur in it; the boundary looks.

    Verbatim, code point by code point; with `fold_whitespace` every run of white space counts as one space.
    """

    fold_whitespace: bool = False

    @property
    def error_type(self) -> str:
        """How a rejection names a quote that is not there; the number is the version of the comparison."""
        return "quote_folded@1" if self.fold_whitespace else "quote_verbatim@1"


@dataclass(frozen=True, slots=True)
class ReasonMark:
    """This text is the model's stated reason."""


Confidence: TypeAlias = Annotated[float, Ge(0), Le(1), ConfidenceMark()]
"""A JSON number from 0 to 1; integers allowed, booleans not. Routes compare its exact decimal value."""

Reason: TypeAlias = Annotated[str, MinLen(1), MaxLen(300), ReasonMark()]
"""The model's stated reason: 1 to 300 characters, not blank, sensitive."""

Quote: TypeAlias = Annotated[str, MinLen(1), MaxLen(300), Quoted()]
"""Evidence: 1 to 300 characters copied from the record's text, where they must occur verbatim. Sensitive.
`Annotated[str, Quoted(fold_whitespace=True)]` is one whose white space may differ."""

DecimalText: TypeAlias = Annotated[Decimal, DecimalTextMark()]
"""An exact decimal written as a JSON string in plain notation, such as "60.30"."""
