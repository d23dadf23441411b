"""`assay eval` field by field, and the documents that quotes are looked for in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from labelled_tickets import TICKETS, Reader, labelled

from assay.starter import Example, starter_files
from labelling_project import Project

GOLD = [{"record_id": row[0], "gold": {"category": row[4], "confidence": 1}} for row in TICKETS]


def scored(project: Project, *options: str) -> Any:
    return json.loads(project.done("eval", "tickets.py", *options, "--json"))


@pytest.fixture
def tickets(tmp_path: Path, db_url: str) -> Project:
    project = labelled(tmp_path, db_url)
    project.write_records("gold.jsonl", GOLD)
    return project


def test_a_contract_with_a_label_field_is_compared_as_ever(tickets: Project) -> None:
    found = scored(tickets, "--gold", "answers.csv#gold")
    assert (found["field"], found["evaluated"], found["correct"]) == ("category", 7, 3)
    refused = tickets.finished("eval", "tickets.py", "--gold", "gold.jsonl#gold")
    assert refused.returncode == 2


def test_fields_of_a_label_agree_with_its_accuracy(tickets: Project) -> None:
    """Seven tickets: three right, two dead letters, two wrong; confidences are not compared."""
    found = scored(tickets, "--gold", "gold.jsonl#gold", "--fields")
    (category,) = found["fields"]
    assert (category["path"], category["type"]) == ("/category", "choice")
    counts = [category["exact"][name] for name in ("matches", "mismatches", "missing", "spurious")]
    assert counts == [3, 2, 2, 0]
    assert category["exact"]["recall"] == pytest.approx(3 / 7)
    assert found["documents_right"] == {"exact": 3, "normalised": 3}
    assert found["without_label_by_code"] == {"schema_validation_error": 1, "json_invalid": 1}
    page = tickets.done("eval", "tickets.py", "--gold", "gold.jsonl#gold", "--fields")
    assert "Documents with every field right: 3" in page
    assert "Normalisation 1" in page


def test_gold_that_is_elsewhere_json_text(tickets: Project) -> None:
    tickets.write_records(
        "gold.jsonl", [{"record_id": row["record_id"], "gold": json.dumps(row["gold"])} for row in GOLD[:3]]
    )
    found = scored(tickets, "--gold", "gold.jsonl#gold", "--fields")
    assert (found["gold_records"], found["evaluated"]) == (3, 3)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--gold", "answers.csv#gold", "--fields"), "has no object as gold"),
        (("--gold", "gold.jsonl#gold", "--fields", "--field", "category"), "leave --field and --labels out"),
        (("--gold", "odd.jsonl#gold", "--fields"), "mentions no field of the contract"),
        (("--gold", "list.jsonl#gold", "--fields"), "another shape than the contract at /category"),
        (("--gold", "two.jsonl#gold", "--fields"), "unlike an earlier line"),
        (("--gold", "other.jsonl#gold", "--fields"), "None of the 1 gold records"),
    ],
)
def test_gold_that_cannot_be_used(tickets: Project, options: tuple[str, ...], told: str) -> None:
    tickets.write_records("odd.jsonl", [{"record_id": "r-01", "gold": {"colour": "planted-value"}}])
    tickets.write_records("list.jsonl", [{"record_id": "r-01", "gold": {"category": ["planted-value"]}}])
    tickets.write_records(
        "two.jsonl", [{"record_id": "r-01", "gold": {"category": word}} for word in ("a", "planted-value")]
    )
    tickets.write_records("other.jsonl", [{"record_id": "x", "gold": {"category": "a"}}])
    refused = tickets.finished("eval", "tickets.py", *options)
    assert refused.returncode == 2
    assert told in refused.stderr
    assert "planted-value" not in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_quotes_are_looked_for_in_referenced_documents(tmp_path: Path, db_url: str) -> None:
    """Receipts by reference: the documents on disk are what the answers quote."""
    project = Reader(tmp_path, db_url)
    for name, text in starter_files(example=Example.RECEIPTS).items():
        project.write(name, text)
    rows = [json.loads(line) for line in (tmp_path / "receipts.jsonl").read_text("utf-8").splitlines()]
    (tmp_path / "scans").mkdir()
    for row in rows:
        text = (
            row["text"].replace("Tischlerei Brandl", "Tischlerei Brand1")
            if row["id"] == "R-01"
            else row["text"]
        )
        (tmp_path / "scans" / f"{row['id']}.txt").write_text(text, encoding="utf-8", newline="")
    project.write_records("documents.jsonl", [
        {"id": row["id"], "document_ref": f"{row['id']}.txt", "ocr_version": row["ocr_version"]}
        for row in rows
    ])  # fmt: skip
    project.done("run", "receipts.py", "--input", "documents.jsonl", "--documents-root", "scans", "-q")
    refused = dict(project.rows("SELECT t.record_id, d.errors FROM assay.dead_letters d"
                                " JOIN assay.annotation_tasks t USING (task_id)"))  # fmt: skip
    assert refused.keys() == {"R-01", "R-04", "R-05", "R-08", "R-10"}
    assert refused["R-01"] == [{"path": "/seller/evidence", "type": "quote_verbatim@1"}]
    assert "scan-1" in project.done("explain", "R-12")
    assert project.broken() == []
