"""Writes docs/states.md from the table of legal moves; with --check only says whether it is in step."""

from __future__ import annotations

import sys
from pathlib import Path

from assay.domain.lifecycle import LEGAL_MOVES, STATE_SENTENCES, TaskState

PAGE = Path(__file__).parents[1] / "docs" / "states.md"


def render() -> str:
    """The page: states, diagram, moves."""
    lines = [
        "# States and moves",
        "",
        "Written by `tools/render_states.py` from `assay.domain.lifecycle`; the database holds the same",
        "table (`legal_moves`) and refuses every other move. A task that does not exist yet has no state.",
        "",
        "| state | one sentence |",
        "|---|---|",
        *(f"| `{state}` | {STATE_SENTENCES[state]} |" for state in TaskState),
        "",
        "```mermaid",
        "stateDiagram-v2",
        *(
            f"    {before or '[*]'} --> {after}: {move}"
            for before, move, after in _ordered()
            if move not in ("supersede", "erase")
        ),
        "```",
        "",
        "Not drawn: `supersede` from every state but `processing`, `erase` from every state.",
        "",
        "| from | move | to |",
        "|---|---|---|",
        *(f"| {_code(before)} | `{move}` | `{after}` |" for before, move, after in _ordered()),
        "",
    ]
    return "\n".join(lines)


def _code(state: TaskState | None) -> str:
    return "–" if state is None else f"`{state}`"


def _ordered() -> list[tuple[TaskState | None, str, TaskState]]:
    order = [None, *TaskState]
    return sorted(LEGAL_MOVES, key=lambda row: (order.index(row[0]), order.index(row[2]), row[1]))


def problems(root: Path) -> list[str]:
    """One sentence when the page is not what the table says."""
    page = root / "docs" / "states.md"
    if not page.is_file() or page.read_text("utf-8") == render():
        return []
    return ["docs/states.md is not in step with the table of moves: run tools/render_states.py"]


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit("\n".join(problems(PAGE.parents[1])) or 0)
    PAGE.write_text(render(), encoding="utf-8")
