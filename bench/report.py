"""What a run found, as Markdown for people and JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from bench.statistics import Spread

Value = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Table:
    """Named columns and rows of cells, ready to print."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    note: str = ""

    def markdown(self) -> str:
        """The table as GitHub writes it; numbers stand to the right."""
        head = "| " + " | ".join(self.columns) + " |"
        line = "|" + "|".join("---" if n == 0 else "---:" for n in range(len(self.columns))) + "|"
        rows = ["| " + " | ".join(row) + " |" for row in self.rows]
        parts = [f"**{self.title}**", "", head, line, *rows]
        if self.note:
            parts += ["", self.note]
        return "\n".join(parts)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One goal against its threshold. `met` is None where it was not measured."""

    goal: str
    wanted: str
    found: str
    met: bool | None

    @property
    def word(self) -> str:
        return {True: "pass", False: "FAIL", None: "not measured"}[self.met]


@dataclass(slots=True)
class LegReport:
    """What one leg found. `faults` are what was wrong with the run itself: counts, a broken audit."""

    name: str
    title: str
    tables: list[Table] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    figures: dict[str, Value] = field(default_factory=dict)
    rounds: list[dict[str, float]] = field(default_factory=list)
    complete: bool = False

    def markdown(self) -> str:
        """The leg's section."""
        parts = [f"## {self.title}"]
        if not self.complete:
            parts.append("This leg did not run to its end.")
        parts += [f"**Wrong:** {fault}" for fault in self.faults]
        parts += [table.markdown() for table in self.tables]
        return "\n\n".join(parts)


_GOAL_COLUMNS: Final = ("goal", "wanted", "found", "")


def document(environment: dict[str, Value], legs: Sequence[LegReport]) -> str:
    """The whole report: the verdicts first, then the legs, then what it was measured on."""
    goals = Table(
        "Goals",
        _GOAL_COLUMNS,
        [(v.goal, v.wanted, v.found, v.word) for leg in legs for v in leg.verdicts],
    )
    where = Table("Measured on", ("what", "value"), [(k, str(v)) for k, v in environment.items()])
    parts = ["# Benchmark", goals.markdown(), *(leg.markdown() for leg in legs), where.markdown()]
    return "\n\n".join(parts) + "\n"


def write(folder: Path, environment: dict[str, Value], legs: Sequence[LegReport]) -> Path:
    """Write `report.md` and `report.json` into a folder; the path of the former."""
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / "report.md"
    page.write_text(document(environment, legs), encoding="utf-8")
    whole = {"environment": environment, "legs": [asdict(leg) for leg in legs]}
    (folder / "report.json").write_text(
        json.dumps(whole, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    return page


def number(value: float) -> str:
    """A figure with as many digits as it deserves: 36,512 · 41.3 · 0.87."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def ranged(found: Spread) -> str:
    """A median with its range, where there is more than one measurement."""
    if found.count < 2:
        return number(found.median)
    return f"{number(found.median)} [{number(found.low)}–{number(found.high)}]"
