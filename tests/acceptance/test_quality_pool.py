"""The random quality pool: blind items for candidates, drawn at a stored probability; no state changes."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Final

import pytest

from labelling_project import Project

ROWS: Final = 400
CATEGORIES: Final = ("billing", "technical", "other")
UNSURE: Final = range(0, ROWS, 20)

PIPELINE: Final = """
from typing import Literal
from assay import Confidence, Contract, Pipeline, Prompt, Route

class Row(Contract):
    category: Literal["billing", "technical", "other"]
    confidence: Confidence

pipeline = Pipeline(name="rows", contract=Row, model="recorded:rows.csv#answer", prompt=Prompt("Label."),
                    route=Route(accept_at=0.85), {quality})
"""


def labelled(folder: Path, database_url: str, quality: str) -> Project:
    """Rows labelled under these quality settings: every twentieth is unsure and goes to people anyway."""
    project = Project(folder, database_url)
    project.write("rows.py", PIPELINE.format(quality=quality))
    written = io.StringIO()
    rows = csv.writer(written)
    rows.writerow(["id", "text", "answer"])
    for row in range(ROWS):
        confidence = 0.5 if row in UNSURE else 0.95
        answer = json.dumps({"category": CATEGORIES[row % 3], "confidence": confidence})
        rows.writerow([f"r{row}", f"text {row}", answer])
    project.write("rows.csv", written.getvalue())
    project.done("run", "rows.py", "--input", "rows.csv", "--quiet")
    # Whatever was drawn: the route alone decides the state.
    assert project.states() == {"auto_candidate": ROWS - len(UNSURE), "review_pending": len(UNSURE)}
    assert project.broken() == []
    return project


def candidates_drawn(project: Project) -> set[str]:
    """Candidates with an item in the pool; each has one, open and blind."""
    found = project.rows(
        "SELECT t.record_id, r.reason, r.state, r.blind FROM assay.review_items r"
        " JOIN assay.annotation_tasks t USING (task_id) WHERE t.state = 'auto_candidate'"
    )
    drawn = {record_id for record_id, *_ in found}
    assert len(drawn) == len(found)
    assert {tuple(rest) for _, *rest in found} <= {("quality_pool", "open", True)}
    return drawn


def all_candidates(project: Project) -> set[str]:
    rows = project.rows("SELECT record_id FROM assay.annotation_tasks WHERE state = 'auto_candidate'")
    return {record_id for (record_id,) in rows}


def probabilities(project: Project) -> list[tuple[float, ...]]:
    return project.rows("SELECT DISTINCT quality_probability FROM assay.annotation_tasks")


def referred_items(project: Project) -> list[tuple[str, bool, int]]:
    """Reason, blindness and number of the items for what the route refers."""
    return project.rows(
        "SELECT r.reason, r.blind, count(*) FROM assay.review_items r"
        " JOIN assay.annotation_tasks t USING (task_id) WHERE t.state = 'review_pending' GROUP BY 1, 2"
    )


def test_at_one_every_candidate_is_drawn(tmp_path: Path, db_url: str) -> None:
    project = labelled(tmp_path, db_url, "quality_probability=1.0")
    assert candidates_drawn(project) == all_candidates(project)
    assert probabilities(project) == [(1.0,)]
    # What goes to people anyway is in the pool too: blind, and counted once.
    assert referred_items(project) == [("low_confidence", True, len(UNSURE))]


def test_a_share_draws_about_that_share(tmp_path: Path, db_url: str) -> None:
    share = 0.3
    project = labelled(tmp_path, db_url, f"quality_probability={share}")
    ((stored,),) = probabilities(project)
    assert math.isclose(stored, share, rel_tol=1e-6)
    drawn = candidates_drawn(project)
    selected = project.rows(
        "SELECT record_id FROM assay.annotation_tasks WHERE quality_selected AND state = 'auto_candidate'"
    )
    assert drawn == {record_id for (record_id,) in selected}
    # Six standard deviations of the binomial: a fair draw is outside of them once in 500 million runs.
    count = ROWS - len(UNSURE)
    assert abs(len(drawn) - count * share) < 6 * math.sqrt(count * share * (1 - share))


def test_a_stratum_is_drawn_by_its_own_share(tmp_path: Path, db_url: str) -> None:
    project = labelled(tmp_path, db_url, 'quality_strata={"billing": 1.0}')
    billing = {f"r{row}" for row in range(0, ROWS, 3) if row not in UNSURE}
    assert candidates_drawn(project) == billing
    assert probabilities(project) == [(0.0,)]
    drawn = "SELECT DISTINCT stratum, stratum_probability, stratum_selected FROM assay.annotation_outputs"
    assert set(project.rows(drawn)) == {(None, None, False), ("billing", 1.0, True)}
    assert referred_items(project) == [("low_confidence", False, len(UNSURE))]


@pytest.mark.parametrize("quality", ["quality_probability=0", 'quality_strata={"billing": 0}'])
def test_nothing_is_drawn_at_nought(quality: str, tmp_path: Path, db_url: str) -> None:
    project = labelled(tmp_path, db_url, quality)
    assert candidates_drawn(project) == set()
    assert probabilities(project) == [(0.0,)]
    assert referred_items(project) == [("low_confidence", False, len(UNSURE))]
