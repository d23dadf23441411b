"""Rows under headings at any width: no word is broken, no line is too long, no value is lost."""

from __future__ import annotations

import io
import re
from typing import Final

import pytest
from rich.cells import cell_len
from rich.console import Console

from assay.cli.tables import NONE, table

VERSIONS: Final = table(
    "Pipeline versions",
    ["version", "stage", "models seen", "tasks", "auto_candidate", "review_pending"],
    [["tickets 0123456789ab", "unproven, stopped", "openai:gpt-5-mini", 120_000, 99_000, 21_000],
     ["发票 ba9876543210", "unproven", None, 3, 2, 1]],
    right=["tasks"],
)  # fmt: skip


def printed(width: int) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False, markup=False).print(VERSIONS)
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [40, 60, 80, 88, 100, 120, 200])
def test_every_value_is_whole_and_every_line_fits(width: int) -> None:
    lines = printed(width)
    assert all(cell_len(line) <= width for line in lines)
    words = set(re.split(r"\s+", "\n".join(lines)))
    expected = (
        "tickets 0123456789ab unproven, openai:gpt-5-mini 120000 99000 发票 ba9876543210 auto_candidate"
    )
    assert set(expected.split()) <= words


def test_a_table_where_it_fits_else_a_paragraph_a_row() -> None:
    assert any("──" in line for line in printed(100))
    assert len(printed(200)) == 5
    stacked = printed(80)
    assert not any("──" in line for line in stacked)
    assert [line.rstrip() for line in stacked] == [
        "Pipeline versions",
        "tickets 0123456789ab",
        "  stage unproven, stopped · models seen openai:gpt-5-mini · tasks 120000 ·",
        "  auto_candidate 99000 · review_pending 21000",
        "发票 ba9876543210",
        "  stage unproven · tasks 3 · auto_candidate 2 · review_pending 1",
    ]
    assert NONE not in "".join(stacked)


def test_a_word_longer_than_the_screen_is_the_only_one_that_breaks() -> None:
    out = io.StringIO()
    Console(file=out, width=30).print(table(None, ["a", "b"], [["x" * 50, "short"]]))
    assert out.getvalue().split() == ["x" * 30, "x" * 20, "b", "short"]
