"""What people and scripts read: results, explain, status, eval, pipeline, migrate and db, as processes."""

from __future__ import annotations

import base64
import csv
import io
import json
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from labelled_tickets import MARKUP, PIPELINE, PLANTED, TICKETS, Reader, labelled

from assay.adapters.vault import KEY_BYTES
from labelling_project import Project


@pytest.fixture
def project(tmp_path: Path, db_url: str) -> Project:
    return labelled(tmp_path, db_url)


def results(project: Project, *arguments: str, **environment: str) -> dict[str, dict[str, Any]]:
    rows = [json.loads(line) for line in project.done("results", *arguments, **environment).splitlines()]
    assert len({row["record_id"] for row in rows}) == len(rows)
    return {row["record_id"]: row for row in rows}


def test_results_hold_every_annotation_and_no_free_text(project: Project) -> None:
    done = Project.finished(project, "results", "tickets.py")
    rows = {row["record_id"]: row for row in map(json.loads, done.stdout.splitlines())}
    assert list(rows) == sorted(row[0] for row in TICKETS)
    assert {name: row["state"] for name, row in rows.items()} == {
        "r-01": "auto_candidate", "r-02": "auto_candidate", "r-03": "auto_candidate",
        "r-04": "review_pending", "r-05": "review_pending", "r-06": "quarantined", MARKUP: "quarantined",
    }  # fmt: skip
    assert '"label": {"category": "billing", "confidence": 0.90}, "confidence": 0.90' in done.stdout
    assert list(rows["r-01"]) == [
        "record_id", "input_version", "state", "label", "confidence", "error_code", "review_reason",
        "first_pass_code", "pipeline_version", "attempts", "revision",
    ]  # fmt: skip
    assert rows["r-04"]["review_reason"] == "low_confidence"
    assert (rows["r-06"]["label"], rows["r-06"]["error_code"]) == (None, "schema_validation_error")
    assert rows[MARKUP]["first_pass_code"] == "json_invalid"
    assert rows["r-01"]["revision"] == 1
    assert PLANTED not in done.stdout
    assert done.stderr.count("/reason") == 1


def test_reveal_opens_labels_and_texts_in_the_contracts_order(project: Project) -> None:
    rows = results(project, "tickets.py", "--reveal")
    assert list(rows["r-01"]["label"]) == ["reason", "category", "confidence"]
    assert rows["r-01"]["label"]["reason"] == f"about {PLANTED}"
    assert "text" not in rows["r-01"]
    with_text = results(project, "tickets", "--reveal", "--with-text")
    assert {name: row["text"] for name, row in with_text.items()} == {row[0]: row[1] for row in TICKETS}


def test_csv_has_a_column_per_field_and_exports_values_as_they_are(project: Project) -> None:
    plain = list(csv.DictReader(io.StringIO(project.done("results", "tickets.py", "-f", "csv"))))
    assert [name for name in plain[0] if name.startswith("label.")] == ["label.category", "label.confidence"]
    assert {row["record_id"]: row["label.category"] for row in plain}["r-04"] == "billing"
    assert {row["record_id"]: row["label.confidence"] for row in plain}["r-06"] == ""
    whole = project.done("results", "tickets.py", "-f", "csv", "--reveal", "--with-text")
    rows = {row["record_id"]: row for row in csv.DictReader(io.StringIO(whole))}
    assert rows["r-03"]["label.reason"] == "=1+1"
    assert rows["r-01"]["text"] == TICKETS[0][1]


def test_an_output_file_is_written_whole_or_not_at_all(project: Project) -> None:
    out = project.folder / "out.jsonl"
    project.done("results", "tickets", "-o", "out.jsonl")
    before = out.read_bytes()
    assert before.count(b"\n") == len(TICKETS)
    other_key = base64.b64encode(b"k" * KEY_BYTES).decode()
    failed = project.finished("results", "tickets", "--reveal", "-o", "out.jsonl", ASSAY_VAULT_KEY=other_key)
    assert failed.returncode != 0
    assert "vault key" in failed.stderr
    assert out.read_bytes() == before
    assert not list(project.folder.glob(".out.jsonl*"))
    for output, said in ((".", "is a folder"), ("nowhere/x.jsonl", "There is no folder nowhere")):
        refused = project.finished("results", "tickets", "-o", output)
        assert refused.returncode == 2
        assert said in refused.stderr
        assert ".part" not in refused.stderr


def test_states_versions_and_what_serves_can_be_chosen(project: Project) -> None:
    dead = results(project, "--state", "quarantined")
    assert set(dead) == {"r-06", MARKUP}
    project.done("run", "tickets.py", "-i", "tickets.jsonl", "-q", "--model", "recorded:answers.csv#two")
    first, served = results(project, "tickets", "--version", "first"), results(project, "tickets")
    assert first["r-03"]["label"]["category"] == "billing"
    assert (first["r-03"]["revision"], served["r-03"]["revision"]) == (None, 2)
    assert served["r-03"]["label"]["category"] == "other"
    assert results(project, "tickets.py")["r-03"]["pipeline_version"] == first["r-03"]["pipeline_version"]
    assert results(project, "tickets.py", "--model", "recorded:answers.csv#two") == served
    assert results(project, "tickets.py", "--served") == served
    assert results(project, "--version", served["r-03"]["pipeline_version"][:8]) == served
    every = project.done("results", "tickets.py", "--all-versions").splitlines()
    assert len(every) == 2 * len(TICKETS)


REFUSED: Final = (
    (("results", "ticket"), "there is tickets"),
    (("results", "tickets", "--version", "second"), "names no version"),
    (("results", "tickets.py", "--model", "openai:other"), "has not been run"),
    (("results", "nowhere.py"), "no file nowhere.py"),
    (("results", "tickets", "--with-text"), "--reveal"),
    (("explain", "r-1"), "Near it: r-05, r-06."),
    (("explain", "r-01", "--pipeline", "other", "--input-version", "9"), "with these options"),
    (("eval", "tickets.py", "--gold", "answers.csv#silver"), "no column silver"),
    (("eval", "tickets.py", "--gold", "answers.csv#gold", "--field", "nothing"), "no field nothing"),
    (("pipeline", "list", "other"), "no pipeline 'other'"),
    (("pipeline", "diff", "first", "abcdef1"), "names no version"),
    (("db", "stop"), "ASSAY_DATABASE_URL"),
)


def test_errors_are_one_sentence_and_exit_code_2(project: Project) -> None:
    for arguments, told in REFUSED:
        refused = project.finished(*arguments)
        assert (refused.returncode, refused.stdout) == (2, ""), arguments
        (line,) = refused.stderr.splitlines()
        assert line.startswith("assay: ")
        assert told in line


def test_explain_tells_the_whole_history(project: Project) -> None:
    page = project.done("explain", MARKUP)
    assert page.startswith(f"Record {MARKUP}\n")
    for part in ("quarantined", "json_invalid", "(whole response)", "dead_letter", "tickets.jsonl", "line 7"):
        assert part in page
    known = json.loads(project.done("explain", "r-01", "--json"))
    (annotation,) = known["annotations"]
    assert annotation["label"] == {"category": "billing", "confidence": 0.9}
    assert [move["to_state"] for move in annotation["moves"]] == ["processing", "auto_candidate"]
    assert [(call["pass_number"], call["outcome"]) for call in annotation["calls"]] == [(1, "accepted")]
    assert annotation["version_label"] == "first"
    assert [(row["source"], row["offset"]) for row in known["duplicates"]] == [("tickets.jsonl", 8)]
    assert known["results"][0]["revision"] == 1
    assert [event["kind"] for event in known["events"]] == ["completed"]
    dead = json.loads(project.done("explain", "r-06", "--json"))["annotations"][0]
    assert dead["dead_letters"][0]["errors"] == [{"path": "/category", "type": "literal_error"}]
    assert len(dead["calls"]) == 2
    reviewed = json.loads(project.done("explain", "r-04", "--json"))["annotations"][0]
    assert [item["reason"] for item in reviewed["review_items"]] == ["low_confidence"]


def test_explain_finds_what_was_isolated(project: Project) -> None:
    malformed = json.loads(project.done("explain", "tickets.jsonl:8", "--json"))
    assert [(row["error_type"], row["line"]) for row in malformed["isolated"]] == [("not_json", 8)]
    assert [event["kind"] for event in malformed["events"]] == ["isolated"]
    conflict = json.loads(project.done("explain", "r-02", "--json"))
    assert [row["error_code"] for row in conflict["isolated"]] == ["input_version_conflicts_with_content"]
    assert {event["kind"] for event in conflict["events"]} == {"completed", "conflict"}
    at_its_line = project.done("explain", "tickets.jsonl:10")
    assert "input_version_conflicts_with_content" in at_its_line
    elsewhere = project.finished("explain", "tickets.jsonl:3")
    assert (elsewhere.returncode, "r-03" in elsewhere.stderr) == (2, True)


def test_pages_never_hold_text_or_free_text(project: Project) -> None:
    shown = [
        project.done(*command)
        for command in (
            ("explain", "r-01"), ("explain", "r-01", "--json"), ("explain", "tickets.jsonl:8"),
            ("status",), ("status", "--json"), ("results", "-f", "csv"),
            ("eval", "tickets.py", "--gold", "answers.csv#gold"),
        )
    ]  # fmt: skip
    assert all(PLANTED not in page for page in shown)
    assert PLANTED in project.done("results", "--reveal")


def test_status_counts_everything(project: Project) -> None:
    found = json.loads(project.done("status", "--json"))
    (version,) = found["versions"]
    assert version["states"] == {"auto_candidate": 3, "review_pending": 2, "quarantined": 2}
    assert {row["reason"]: row["count"] for row in version["dead_letters"]} == {
        "json_invalid": 1, "schema_validation_error": 1,
    }  # fmt: skip
    assert {row["reason"] for row in version["reviews"]} == {"low_confidence", "insufficient_evidence"}
    assert (version["calls"]["calls"], version["calls"]["corrections"]) == (9, 2)
    assert {row["error_type"]: row["count"] for row in found["isolated"]} == {
        "not_json": 1, "content_differs": 1,
    }  # fmt: skip
    (source,) = found["sources"]
    assert (source["committed_offset"], source["inputs"], source["duplicates"]) == (10, 7, 1)
    assert found["outbox"]["unpublished"] == 9
    assert version["last_hour"]["calls"] == 9
    assert [row["model"] for row in version["models_seen"]] == ["recorded:answers.csv#one"]
    assert (version["parked_by_reason"], found["workers"], found["accounts"]) == ([], [], [])
    assert [(row["pipeline"], row["day_cap"]) for row in found["budgets"]] == [("tickets", None)]
    page = project.done("status")
    for part in (
        "tickets first",
        "auto_candidate",
        "low_confidence",
        "not_json",
        "tickets.jsonl",
        "PostgreSQL",
    ):
        assert part in page


def test_eval_counts_every_gold_record(project: Project) -> None:
    found = json.loads(project.done("eval", "tickets.py", "--gold", "answers.csv#gold", "--json"))
    assert (found["evaluated"], found["correct"], found["not_annotated"]) == (7, 3, 0)
    assert found["accuracy"] == pytest.approx(3 / 7)
    assert found["missing_by_code"] == {"json_invalid": 1, "schema_validation_error": 1}
    assert found["missing_outside_contract"] == 1
    assert (found["label_set"], found["labels"]) == ("contract", ["billing", "technical", "other", "unclear"])
    assert found["macro"]["undefined_as_0"]["precision"] == pytest.approx((2 / 3 + 1 + 0 + 0) / 4)
    assert found["macro"]["undefined_as_1"]["precision"] == pytest.approx((2 / 3 + 1 + 1 + 0) / 4)
    assert found["weighted"]["undefined_as_0"]["recall"] == pytest.approx(3 / 7)
    page = project.done("eval", "tickets.py", "--gold", "answers.csv#gold")
    for part in (
        "Evaluated over 7 of 7 gold records",
        "0.4286",
        "undefined as 1",
        "json_invalid 1",
        "1 of them",
    ):
        assert part in page
    gold_set = project.done("eval", "tickets.py", "--gold", "answers.csv#gold", "--labels", "gold", "--json")
    narrow = json.loads(gold_set)
    assert (narrow["outside"], narrow["correct"]) == ({"unclear": 1}, 3)


def test_eval_says_what_it_leaves_out(project: Project) -> None:
    more = "record_id,gold\nr-01,billing\nr-02,technical\nr-99,other\n"
    project.write("more.csv", more)
    page = project.done("eval", "tickets.py", "--gold", "more.csv#gold")
    assert "Evaluated over 2 of 3 gold records; 1 not annotated (left out of every figure)" in page
    project.write("others.csv", "gold\nbilling\nother\n")
    refused = project.finished("eval", "tickets.py", "--gold", "others.csv#gold")
    assert refused.returncode == 2
    assert "others.csv:1" in refused.stderr
    assert MARKUP in refused.stderr
    never = project.finished("eval", "tickets.py", "--gold", "more.csv#gold", "--model", "openai:other")
    assert never.returncode == 2


def test_eval_compares_free_text_without_showing_it(project: Project) -> None:
    project.write("reasons.csv", f"record_id,why\nr-01,about {PLANTED}\nr-03,about sums\n")
    asked = ("eval", "tickets.py", "--gold", "reasons.csv#why", "--field", "reason")
    found = project.done(*asked, "--json")
    assert (json.loads(found)["correct"], json.loads(found)["evaluated"]) == (1, 2)
    assert json.loads(found)["outside_count"] == 1
    assert PLANTED not in found + project.done(*asked)


def test_versions_are_registered_listed_and_compared(project: Project) -> None:
    project.write(
        "changed.py", PIPELINE.replace("Label the ticket.", "Label it.").replace('label="first"', "")
    )
    again = json.loads(project.done("pipeline", "register", "tickets.py", "--json"))
    changed = json.loads(project.done("pipeline", "register", "changed.py", "--json"))
    assert (again["new"], changed["new"]) == (False, True)
    listed = json.loads(project.done("pipeline", "list", "--json"))
    assert [row["label"] for row in listed] == ["first", None]
    assert project.done("pipeline", "list").count("tickets") == 2
    same = project.finished("pipeline", "diff", "tickets.py", "first")
    assert (same.returncode, "They are the same." in same.stdout) == (0, True)
    differ = project.finished("pipeline", "diff", "first", changed["pipeline_version"][:8])
    assert differ.returncode == 1
    for part in ("/prompt/system", '- "Label the ticket."', '+ "Label it."'):
        assert part in differ.stdout
    as_json = json.loads(project.finished("pipeline", "diff", "first", "changed.py", "--json").stdout)
    assert [row["path"] for row in as_json["differences"]] == ["/prompt/system"]


def test_a_database_of_ones_own_is_shown_without_its_password(project: Project) -> None:
    reply = project.done("db", "url")
    secret = psycopg.conninfo.conninfo_to_dict(project.database_url).get("password")
    assert secret is None or str(secret) not in reply + project.done("db", "status")
    assert project.done("db", "url", "--reveal").strip() == project.database_url


def test_commands_start_nothing_where_nothing_was_run(tmp_path: Path) -> None:
    new = Reader(tmp_path, "")
    assert new.done("status").startswith("Nothing has been run here yet")
    assert json.loads(new.done("status", "--json"))["database"] is None
    assert "stopped" in new.done("db", "status")
    assert new.done("db", "stop") == "The embedded server was not running.\n"
    pending = new.finished("migrate", "--check")
    assert (pending.returncode, "0001" in pending.stdout) == (1, True)
    for command in (("results",), ("explain", "r-01"), ("pipeline", "list")):
        refused = new.finished(*command)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "assay demo" in refused.stderr
    assert not list(tmp_path.iterdir())


def test_migrate_lists_what_was_applied(project: Project) -> None:
    ready = json.loads(project.done("migrate", "--check", "--json"))
    assert (ready["pending"], {row["state"] for row in ready["migrations"]}) == (0, {"applied"})
    with psycopg.connect(project.database_url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA assay, assay_vault CASCADE")
        connection.execute("DROP TABLE public.assay_migrations")
    assert project.finished("migrate", "--check").returncode == 1
    assert json.loads(project.done("migrate", "--json"))["applied_now"] == len(ready["migrations"])
    page = project.done("status")
    assert page.startswith("Nothing has been run here yet")
