"""Tables and lines for people, safe to show whatever is in the data."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

from rich.console import Console

from assay.cli.listing import Listing

# Where there is no terminal nothing is cut to fit one.
_WIDTH_ELSEWHERE: Final = 160
NONE: Final = "–"


class _Screen(Console):
    """Standard output (or error) without markup: what looks like markup in a record id is data."""

    def __init__(self, *, error: bool, width: int | None = None) -> None:
        super().__init__(
            stderr=error, markup=False, highlight=False, emoji=False, soft_wrap=False, width=width
        )

    def on_broken_pipe(self) -> None:
        """The reader has gone: told to the caller, where rich would exit with 1, the code of a broken
        invariant."""
        raise BrokenPipeError


def console(*, error: bool = False) -> Console:
    """The console that tables and lines are printed on."""
    screen = _Screen(error=error)
    if not screen.is_terminal and "COLUMNS" not in os.environ:
        return _Screen(error=error, width=_WIDTH_ELSEWHERE)
    return screen


def shown(value: object) -> str:
    """A value as a line for people: control and direction characters are written as escapes."""
    match value:
        case None:
            return NONE
        case bool():
            return "yes" if value else "no"
        case datetime():
            return when(value)
        case Decimal():
            return f"{value:f}"
        case float():
            return f"{value:.6g}"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(value))


def when(moment: datetime) -> str:
    """A time in UTC, to the millisecond."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z"


def table(
    title: str | None, columns: Sequence[str], rows: Iterable[Sequence[object]], *, right: Iterable[str] = ()
) -> Listing:
    """A table, or a paragraph a row where it does not fit. Columns named in `right` are aligned right."""
    return Listing(title, columns, [[shown(value) for value in row] for row in rows], frozenset(right), NONE)


def put(screen: Console, made: Listing) -> None:
    """Print it and a blank line below it."""
    screen.print(made)
    screen.print()


def count(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun."""
    return f"{number} {one if number == 1 else many or one + 's'}"
