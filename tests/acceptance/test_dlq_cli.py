"""What an engineer does about dead letters, from the cohorts to the closing; no text is ever shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest
from labelled_tickets import MARKUP, PLANTED, labelled

from labelling_project import Project

QUESTIONS = (
    "What did the system see?", "What did it produce?", "Which contract refused it?",
    "Can it be replayed safely?",
)  # fmt: skip


@pytest.fixture
def project(tmp_path: Path, db_url: str) -> Project:
    return labelled(tmp_path, db_url)


def objects(project: Project, *command: str) -> Any:
    return json.loads(project.done("dlq", *command, "--json"))


def number_of(project: Project, record: str) -> str:
    (row,) = objects(project, "list", "--record", record)
    return str(row["dead_letter_id"])


def in_order(page: str) -> bool:
    places = [page.find(question) for question in QUESTIONS]
    return -1 not in places and places == sorted(places)


def test_from_cohorts_to_one_page_to_a_closing(project: Project) -> None:
    found = objects(project, "cohorts")
    assert {(row["code"], row["field"], row["count"]) for row in found} >= {
        ("schema_validation_error", "/category", 1), ("json_invalid", "", 1),
    }  # fmt: skip
    assert "json_invalid" in project.done("dlq", "cohorts", "--by", "code")
    number = number_of(project, MARKUP)
    page = project.done("dlq", "show", number)
    assert in_order(page)
    for part in ("json_invalid", "(whole response)", MARKUP, "tickets.jsonl", "threshold 0.8",
                 "yes, with a named fix", "the same call again will not help"):  # fmt: skip
        assert part in page
    explained = project.done("explain", MARKUP)
    assert in_order(explained)
    assert "Moves" in explained
    replay = objects(project, "show", number)["replay"]
    assert (replay["safe"], replay["bars"], replay["readable"]) == (True, [], True)
    assert project.done("dlq", "assign", number, "--owner", "ann") == "1 dead letter assigned to ann.\n"
    assert "ann has it" in project.done("dlq", "show", number)
    counted = project.done("dlq", "close", "--owned-by", "ann", "--reason", "chatter")
    assert counted == ("1 dead letter would be closed (1 assigned). Nothing was changed; --yes does it.\n")
    assert project.done("dlq", "close", "--owned-by", "ann", "--reason", "chatter", "--yes") == (
        "1 dead letter closed.\n"
    )
    assert project.done("dlq", "close", number, "--reason", "again") == (
        "0 dead letters closed; 1 stayed as before.\n"
    )
    assert project.states()["rejected"] == 1
    assert "closed" in project.done("dlq", "show", number)
    assert project.done("dlq", "list", "--owned-by", "ann") == "No dead letter matches.\n"
    assert project.broken() == []


def test_an_export_is_written_whole_or_not_at_all(project: Project) -> None:
    listed = objects(project, "list", "--oldest")
    project.done("dlq", "export", "-o", "letters.jsonl")
    lines = (project.folder / "letters.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == listed
    assert project.done("dlq", "export").splitlines() == lines
    before = sorted(path.name for path in project.folder.iterdir())
    refused = project.finished("dlq", "export", "--version", "nothing", "-o", "other.jsonl")
    assert refused.returncode == 2
    assert sorted(path.name for path in project.folder.iterdir()) == before


def test_terms_and_costs(project: Project) -> None:
    assert project.done("dlq", "terms", "tickets") == (
        "tickets: dead letters are due after 7 days and never expire.\n"
    )
    told = project.done("dlq", "terms", "tickets", "--due", "12h", "--expire", "90d", "--by", "ann")
    assert told == "tickets: dead letters are due after 12 hours and expire after 90 days.\n"
    assert json.loads(project.done("dlq", "terms", "tickets", "--default", "--json"))["due_seconds"] == 604800
    costs = objects(project, "costs")
    assert sum(row["calls"] for row in costs) == project.one(
        "SELECT count(*) FROM assay.calls WHERE outcome <> 'accepted'"
    )


WRONG = (
    (("dlq", "show", "999"), "There is no dead letter 999"),
    (("dlq", "close", "--reason", "x"), "Say which"),
    (("dlq", "close", "1", "--code", "x", "--reason", "x"), "not both"),
    (("dlq", "close", "1", "--reason", " "), "--reason is a sentence"),
    (("dlq", "close", "1"), "--reason"),
    (("dlq", "assign", "1", "--owner", " "), "--owner is a name"),
    (("dlq", "list", "--since", "yesterday"), "--since is an age"),
    (("dlq", "list", "--pipeline", "other"), "no pipeline 'other'"),
    (("dlq", "cohorts", "--by", "colour"), "--by knows no column 'colour'"),
    (("dlq", "terms", "other"), "no pipeline 'other'"),
    (("dlq", "terms", "tickets", "--due", "0d"), "longer than nothing"),
)


def test_errors_are_one_sentence_and_change_nothing(project: Project) -> None:
    for words, told in WRONG:
        refused = project.finished(*words)
        assert (refused.returncode, refused.stdout) == (2, ""), words
        (line,) = refused.stderr.splitlines()
        assert told in line
    assert project.rows("SELECT count(*) FROM assay.dead_letter_acts") == [(0,)]


def shown(project: Project) -> list[str]:
    """All that the commands print about dead letters, and all that tables, view and events hold of them."""
    number = number_of(project, MARKUP)
    project.done("dlq", "export", "-o", "letters.jsonl")
    commands = [
        project.finished(*command).stdout + project.finished(*command).stderr
        for command in (
            ("dlq", "list"), ("dlq", "list", "--json"), ("dlq", "show", number),
            ("dlq", "show", number, "--json"), ("dlq", "cohorts"), ("dlq", "cohorts", "--json"),
            ("dlq", "costs"), ("dlq", "export"), ("explain", MARKUP), ("explain", MARKUP, "--json"),
        )
    ]  # fmt: skip
    rows = [
        row
        for table in ("dead_letters", "dead_letter_envelopes", "dead_letter_acts", "outbox_events")
        for (row,) in project.rows(f"SELECT t::text FROM assay.{table} t")
    ]
    return [*commands, *rows, (project.folder / "letters.jsonl").read_text()]


def test_a_planted_token_is_nowhere_in_sight(project: Project) -> None:
    """The token stands in texts, in answers and in free-text fields of them, of the refused ones too."""
    assert PLANTED in project.done("results", "tickets.py", "--reveal", "--with-text")
    ran = project.finished("run", "tickets.py", "--input", "tickets.jsonl", ASSAY_LOG="json")
    seen = [*shown(project), ran.stdout, ran.stderr]
    assert len(seen) > 15
    assert not [text for text in seen if PLANTED in text]


def test_the_token_would_be_found(project: Project) -> None:
    """The control: where a path of an error held it, the same look finds it."""
    with psycopg.connect(project.database_url) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute(
            "UPDATE assay.dead_letters SET errors = jsonb_build_array(jsonb_build_object("
            "'path', '/' || %s::text, 'type', 'missing'))", (PLANTED,),
        )  # fmt: skip
    assert sum(PLANTED in text for text in shown(project)) >= 8
