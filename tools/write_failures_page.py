"""Writes docs/failures.md from the table of failures; with --check only says whether it is in step."""

from __future__ import annotations

import sys
from pathlib import Path

from assay.domain.failure_table import FAILURE_TABLE, FailureClass, FailureRule, Origin

PAGE = Path(__file__).parents[1] / "docs" / "failures.md"

_CLASSES = {
    FailureClass.TRANSIENT: "Another try may help; tries are bounded by attempts, age, budget and breaker.",
    FailureClass.CONTRACT: "The contract, or the vendor, refuses this one; the same call is not repeated.",
    FailureClass.AMBIGUOUS: "The text does not tell; a person decides, nobody asks the model to be certain.",
    FailureClass.VERSION: "A version of something is not what it was; its cohort is set apart.",
    FailureClass.POLICY: "A rule forbids it; a controlled workflow, never a clever retry.",
    FailureClass.CONFIGURATION: "Nothing works until a person acts; records wait, none is burnt.",
}
_ORIGINS = {
    Origin.BOUNDARY: "What the boundary refuses, after the one correction that is due",
    Origin.ROUTE: "What the route hands to a person",
    Origin.PROVIDER: "What a model call ends with",
    Origin.LIMIT: "Limits and stops",
    Origin.INPUT: "What is wrong with a record itself",
    Origin.VERSION: "What happens to a version",
}


def render() -> str:
    """The page: classes, then the codes by where they come from."""
    lines = [
        "# Failures: codes, classes, destinations",
        "",
        "Written by `tools/write_failures_page.py` from `assay.domain.failure_table`. Codes are given by the",
        "type of an error and by status codes, never by the text of a message.",
        "",
        "| class | what it means |",
        "|---|---|",
        *(f"| `{name}` | {_CLASSES[name]} |" for name in FailureClass),
    ]
    for origin in Origin:
        lines += ["", f"## {_ORIGINS[origin]}", "", *_table(origin)]
    return "\n".join([*lines, ""])


def _table(origin: Origin) -> list[str]:
    rules = [rule for rule in FAILURE_TABLE.values() if rule.origin is origin]
    return [
        "| code | when | class | may another try help | uses up | destination | who acts |",
        "|---|---|---|---|---|---|---|",
        *(_row(rule) for rule in rules),
    ]


def _row(rule: FailureRule) -> str:
    cells = (
        f"`{rule.code}`",
        rule.meaning,
        f"`{rule.failure_class}`",
        "yes" if rule.retryable else "no",
        rule.uses_up,
        rule.destination,
        rule.owner,
    )
    return "| " + " | ".join(cells) + " |"


def problems(root: Path) -> list[str]:
    """One sentence when the page is not what the table says."""
    page = root / "docs" / "failures.md"
    if not page.is_file() or page.read_text("utf-8") == render():
        return []
    return ["docs/failures.md is not in step with the table of failures: run tools/write_failures_page.py"]


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit("\n".join(problems(PAGE.parents[1])) or 0)
    PAGE.write_text(render(), encoding="utf-8")
