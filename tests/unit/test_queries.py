"""The loader of named SQL, and the house rules of the SQL files."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest

import assay.adapters.postgres
from assay.adapters.postgres.audit_store import ROOMS
from assay.adapters.postgres.queries import parse_queries, queries
from assay.domain.audit import INVARIANTS, NOTES

FOLDER = Path(str(files(assay.adapters.postgres)))
FILES = sorted((FOLDER / "sql").glob("*.sql"))
EVERY = [(file.stem, name, body) for file in FILES for name, body in queries(file.stem).items()]
SOURCES = "\n".join(file.read_text("utf-8") for file in FOLDER.glob("*.py"))
IDS = [f"{room}-{name}" for room, name, _ in EVERY]


def test_a_file_is_split_at_its_names() -> None:
    text = "-- The room.\n\n-- name: one\n-- Says one.\nSELECT 1\n\n-- name: two_2\nSELECT 2;\n"
    assert parse_queries(text) == {"one": "-- Says one.\nSELECT 1", "two_2": "SELECT 2;"}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("SELECT 1\n-- name: one\nSELECT 1", "before the first"),
        ("-- name: one\nSELECT 1\n-- name: one\nSELECT 2", "named twice"),
        ("-- name: one\n-- only words\n", "is empty"),
        ("-- name: one\n-- name: two\nSELECT 1", "is empty"),
        ("-- name: Bad Name\nSELECT 1", "before the first"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_queries(text)


def test_text_without_a_name_holds_no_query() -> None:
    assert parse_queries("-- words alone\n") == {}


@pytest.mark.parametrize(("room", "name", "body"), EVERY, ids=IDS)
def test_a_query_says_what_it_is_for(room: str, name: str, body: str) -> None:
    assert re.match(r"-- \S+ \S+", body), f"give {name} in sql/{room}.sql a purpose line"


@pytest.mark.parametrize(("room", "name", "body"), EVERY, ids=IDS)
def test_a_query_is_used(room: str, name: str, body: str) -> None:
    if room in ROOMS:
        assert name in {invariant.name for invariant in INVARIANTS}
    elif name not in NOTES:
        assert f'"{name}"' in SOURCES, f"nobody runs {name} of sql/{room}.sql"
        assert f'queries("{room}")' in SOURCES


@pytest.mark.parametrize(("room", "name", "body"), EVERY, ids=IDS)
def test_a_query_is_static_and_names_what_it_reads(room: str, name: str, body: str) -> None:
    code = re.sub(r"--.*", "", body)
    assert "{" not in re.sub(r"'[^']*'", "", code)
    assert ";" not in code
    assert not re.search(r"\bnow\(\)|\bcurrent_timestamp\b|\bclock_timestamp\(", code), (
        "time comes from assay_now()"
    )
    for percent in re.findall(r"%.?", code):
        assert percent == "%(", "parameters are named"


def test_names_are_unique_over_all_files() -> None:
    names = [name for _, name, _ in EVERY]
    assert len(names) == len(set(names))


def test_the_audit_says_the_same_in_code_and_sql() -> None:
    meanings = {invariant.name: invariant.meaning for invariant in INVARIANTS}
    for room in ROOMS:
        for name, body in queries(room).items():
            assert body.startswith(f"-- {meanings[name]}\n"), name
