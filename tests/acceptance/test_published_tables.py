"""Answers that four commercial models gave, and the accuracy, precision, recall and F1 published for them."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from labelling_project import SHARED, Project, needs_real_inputs

MODELS = (
    "gpt_4o_prediction",
    "gpt_4o_mini_prediction",
    "claude_3.5_sonnet_prediction",
    "claude_3.5_haiku_prediction",
)
RECORDS = 620
PIPELINE = """
import json
from pathlib import Path
from typing import Literal
from assay import Contract, Pipeline, Prompt, Route

listed = json.loads(Path({categories!r}).read_text(encoding="utf-8"))["categories"]

class Product(Contract):
    category: Literal[tuple(listed)]

pipeline = Pipeline(name="products", contract=Product, model={model!r},
                    prompt=Prompt("Name the product's category."), route=Route())
"""

pytestmark = needs_real_inputs


def published(split: int, model: str) -> dict[str, float]:
    tables = json.loads((SHARED / "tickets" / "ecommerce_llm_published_metrics.json").read_text("utf-8"))
    (row,) = (row for row in tables[f"dataset_split_{split}.csv"] if row["Model"] == model)
    return {name: row[name] for name in ("Accuracy", "Precision", "Recall", "F1")}


def four_figures(evaluation: Any) -> dict[str, float]:
    """As published: weighted by support, a class that was never predicted with a precision of 1."""
    averages = evaluation["weighted"]["undefined_as_1"]
    found = {
        "Accuracy": evaluation["accuracy"], "Precision": averages["precision"],
        "Recall": averages["recall"], "F1": averages["mean_f1"],
    }  # fmt: skip
    return {name: round(value, 4) for name, value in found.items()}


def answers_outside(file: Path, column: str, categories: Path) -> int:
    listed = set(json.loads(categories.read_text("utf-8"))["categories"])
    with file.open(encoding="utf-8", newline="") as rows:
        return sum(row[column] not in listed for row in csv.DictReader(rows))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("split", [1, 2])
def test_the_published_figures_come_out(split: int, model: str, tmp_path: Path, db_url: str) -> None:
    project = Project(tmp_path, db_url)
    file = SHARED / "tickets" / f"ecommerce_llm_split_{split}.csv"
    categories = SHARED / "tickets" / f"ecommerce_llm_categories_{split}.json"
    project.write(
        "products.py", PIPELINE.format(categories=str(categories), model=f"recorded:{file}#{model}")
    )
    ran = json.loads(
        project.done("run", "products.py", "--input", str(file), "--map", "text=title", "--json")
    )
    # As many results and dead letters as records. An answer outside the list is a dead letter.
    outside = answers_outside(file, model, categories)
    assert ran["review"] == RECORDS - outside
    assert ran["dead_by_code"] == ({"schema_validation_error": outside} if outside else {})
    assert project.one("SELECT count(*) FROM assay.results") == RECORDS
    assert project.one("SELECT count(*) FROM assay.dead_letters") == outside
    assert project.committed() == RECORDS

    found = json.loads(project.done("eval", "products.py", "--gold", f"{file}#category", "--json"))
    assert four_figures(found) == published(split, model)
    assert found["evaluated"] == RECORDS
    assert found["missing_outside_contract"] == outside
    assert project.broken() == []
