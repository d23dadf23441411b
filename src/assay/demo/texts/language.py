"""The shape of one language's words."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Language:
    """Sentences of one language, with slots in braces that the generator fills.

    Slots: order, amount, product, plan, days, date, city, code, version, name. The sentences of a category
    (`billing`, `technical`, `account`, `shipping`, `other`) decide it; those of `vague` decide nothing, and
    their gold is insufficient evidence. `details` and `asides` fit every category. `injections` try to
    command a model; they never change the gold.
    """

    code: str
    greetings: tuple[str, ...]
    closings: tuple[str, ...]
    names: tuple[str, ...]
    cities: tuple[str, ...]
    money: str  # with {whole} and {cents}
    date: str  # with {day}, {month} and {year}
    billing: tuple[str, ...]
    technical: tuple[str, ...]
    account: tuple[str, ...]
    shipping: tuple[str, ...]
    other: tuple[str, ...]
    vague: tuple[str, ...]
    details: tuple[str, ...]
    asides: tuple[str, ...]
    injections: tuple[str, ...]
    quoted: str  # first line of a quoted e-mail, with {date} and {name}
    quoted_lines: tuple[str, ...]
    spaced: bool = True  # words are separated by spaces
    latin: bool = True  # letters can be swapped for typing errors
