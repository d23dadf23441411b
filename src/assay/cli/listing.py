"""Rows under headings, for whatever width there is: a table where no word has to be broken for it, else one
paragraph a row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

# Between two columns: a blank on either side of the box's divider.
_GAP: Final = 3
_INDENT: Final = 2


@dataclass(frozen=True, slots=True)
class Listing:
    """Cells are text that is safe to show, `nothing` where there is none; `right` names the columns that are
    aligned right."""

    title: str | None
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: frozenset[str]
    nothing: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        widths = self._widths(options.max_width)
        if widths is not None:
            yield self._table(widths)
            return
        if self.title is not None:
            yield Text(self.title, style="bold")
        for row in self.rows:
            yield Text(row[0], overflow="fold")
            yield Padding(Text("\n".join(self._lines(row, options.max_width - _INDENT)), overflow="fold"),
                          (0, 0, 0, _INDENT))  # fmt: skip

    def _widths(self, width: int) -> list[int] | None:
        """How wide each column is; None where they cannot stand side by side without breaking a word."""
        columns = [[heading, *(row[n] for row in self.rows)] for n, heading in enumerate(self.columns)]
        widths = [max(cell_len(word) for cell in cells for word in cell.split(" ")) for cells in columns]
        left = width - _GAP * (len(columns) - 1) - sum(widths)
        if left < 0:
            return None
        # Those that lack least are served first: short columns need no second line for the long ones' sake.
        missing = {n: max(map(cell_len, cells)) - widths[n] for n, cells in enumerate(columns)}
        for served, n in enumerate(sorted(missing, key=lambda n: missing[n])):
            given = min(missing[n], left // (len(columns) - served))
            widths[n] += given
            left -= given
        return widths

    def _table(self, widths: Sequence[int]) -> Table:
        title = None if self.title is None else Text(self.title)
        made = Table(title=title, box=SIMPLE_HEAD, title_justify="left", title_style="bold", pad_edge=False,
                     show_edge=False)  # fmt: skip
        for name, width in zip(self.columns, widths, strict=True):
            made.add_column(Text(name), justify="right" if name in self.right else "left", overflow="fold",
                            width=width)  # fmt: skip
        for row in self.rows:
            made.add_row(*(Text(cell) for cell in row))
        return made

    def _lines(self, row: Sequence[str], width: int) -> Iterator[str]:
        """A row but for its first cell, as `heading value · heading value`; what is not there is left out."""
        line = ""
        for heading, cell in zip(self.columns[1:], row[1:], strict=True):
            if cell == self.nothing:
                continue
            pair = f"{heading} {cell}".strip()
            if line and cell_len(f"{line} · {pair}") > width:
                yield f"{line} ·"
                line = pair
            else:
                line = f"{line} · {pair}" if line else pair
        if line:
            yield line
