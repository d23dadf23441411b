"""A cohort of dead letters that a new contract accepts, as tests of replays need it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any, Final

from labelling_project import Project

CONTRACT: Final = """
from typing import Literal
from assay import Confidence, Contract, Pipeline, Prompt, Route

class Label(Contract):
    category: Literal[{categories}]
    confidence: Confidence

pipeline = Pipeline(
    name="refunds", contract=Label, model="recorded:{answers}#answer", prompt=Prompt("Label it."),
    route=Route(accept_at=0.5), keep_responses_days={days},
)
"""


def refunds(
    project: Project, name: str, *categories: str, days: int = 7, answers: str = "answers.csv"
) -> str:
    listed = ", ".join(f'"{category}"' for category in categories)
    return project.write(name, CONTRACT.format(categories=listed, days=days, answers=answers))


def answers(project: Project, name: str, given: list[str]) -> None:
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow(["record_id", "answer"])
    rows.writerows(
        [f"r{number:05}", json.dumps({"category": category, "confidence": 0.9})]
        for number, category in enumerate(given)
    )
    project.write(name, text.getvalue())


def refund_project(folder: Path, url: str, records: int, *, days: int = 7, bogus: int = 4) -> Project:
    """Every second answer is `refund`, which v1 does not know and v2 does; one in `bogus` neither knows."""
    project = Project(folder, url)
    project.write_records(
        "in.jsonl", [{"record_id": f"r{number:05}", "text": f"ticket {number}"} for number in range(records)]
    )
    given = [
        "refund" if number % 2 else "bogus" if number % bogus == 0 else "billing" for number in range(records)
    ]
    answers(project, "answers.csv", given)
    refunds(project, "v1.py", "billing", "other", days=days)
    refunds(project, "v2.py", "billing", "other", "refund", days=days)
    project.done("run", "v1.py", "--input", "in.jsonl", "--quiet")
    return project


def versions(project: Project) -> list[str]:
    found: list[dict[str, Any]] = json.loads(project.done("pipeline", "list", "--json"))
    return [row["pipeline_version"] for row in found]


def new_schema(project: Project) -> None:
    """The fix: `refund` is a category now."""
    project.done("pipeline", "register", "v2.py")
    old, new = versions(project)
    command = ("fix", "add", "new_schema", "--version", old, "--to", new, "--by", "ann", "--json")
    told = json.loads(project.done(*command, "--description", "refund is a category"))
    assert told["fix"] == 1


def planned(project: Project, *options: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(project.done("replay", "plan", "1", "--json", *options))
    return found


def stands(project: Project, number: int = 1) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(project.done("replay", "status", str(number), "--json"))
    return found


def final(project: Project) -> list[tuple[Any, ...]]:
    """What a replay leaves: who serves, in which revision and state, and what was announced of it."""
    return project.rows(
        "SELECT r.record_id, r.revision, t.state::text, o.label_json::text,"
        " (SELECT count(*) FROM assay.known_events e WHERE e.aggregate_id = r.name || '/' || r.record_id"
        "  AND e.kind IN ('completed', 'quarantined')),"
        " (SELECT array_agg(DISTINCT d.state ORDER BY d.state) FROM assay.dead_letters d"
        "  JOIN assay.annotation_tasks a USING (task_id) WHERE a.record_id = r.record_id)"
        " FROM assay.results r JOIN assay.annotation_tasks t USING (task_id)"
        " JOIN assay.annotation_outputs o USING (task_id) ORDER BY 1"
    )


def expected(records: int) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for number in range(records):
        name, label = f"r{number:05}", {"category": "refund", "confidence": 0.9}
        if number % 2:
            rows.append((name, 2, "auto_candidate", json.dumps(label), 2, ["resolved"]))
        elif number % 4 == 0:
            rows.append((name, 2, "quarantined", None, 2, ["open"]))
        else:
            label["category"] = "billing"
            rows.append((name, 1, "auto_candidate", json.dumps(label), 1, None))
    return rows
