"""Gold labels carry the same record ids as the source, and have to be whole."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest

from assay.adapters.files.gold import read_gold
from assay.adapters.files.source import open_source
from assay.domain.failures import ConfigurationError
from assay.domain.identity import InputRecord

SHARED = Path(
    os.environ.get("ASSAY_SHARED_DATA", Path(__file__).resolve().parents[2].parent / "shared" / "data")
)
needs_shared = pytest.mark.skipif(
    not SHARED.is_dir(), reason="real inputs are not here: set ASSAY_SHARED_DATA"
)


def gold_of(file: Path, content: str, column: str = "label", **mapping: str) -> dict[str, str]:
    file.write_text(content, "utf-8")
    return read_gold(f"{file}#{column}", mapping=mapping)


async def test_ids_are_those_of_the_source(tmp_path: Path) -> None:
    for name, content in (
        ("in.csv", 'text,label\n"a\nb",x\n\nc,y\n'),
        ("in.jsonl", '\n{"text": "a", "label": "x"}\n{"text": "c", "label": "y"}\n'),
    ):
        gold = gold_of(tmp_path / name, content)
        source = await open_source(str(tmp_path / name))
        items = [item async for batch in source.read() for item in batch]
        assert list(gold) == [item.record_id for item in items if isinstance(item, InputRecord)]
        assert list(gold.values()) == ["x", "y"]


def test_no_text_is_needed(tmp_path: Path) -> None:
    assert gold_of(tmp_path / "g.csv", "key,label\n1,x\n2,y\n", record_id="key") == {"1": "x", "2": "y"}


def test_labels_of_json_types_and_nested_columns(tmp_path: Path) -> None:
    lines = '{"id": 1, "gold": {"n": 3}}\n{"id": 2, "gold": {"n": true}}\n{"id": 3, "gold": {"n": " a "}}\n'
    assert gold_of(tmp_path / "g.jsonl", lines, "/gold/n") == {"1": "3", "2": "true", "3": " a "}


def test_a_hash_in_the_path_is_no_column(tmp_path: Path) -> None:
    assert gold_of(tmp_path / "a#b.csv", "id,label\n1,x\n") == {"1": "x"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("id,label\n1,x\n2,\n", "Line 3 of g.csv has no gold label"),
        ("id,label\n1,x\n2\n", r"Line 3 of g.csv cannot be used as gold \(bad_row\)"),
        ("id,label\n,x\n", "bad_identity"),
        ("id,label\n1,x\n1,y\n", "Line 3 of g.csv labels a record unlike"),
        ("id,label\n", "no gold labels"),
        ("id,other\n1,x\n", "has no column label; its columns are id, other"),
    ],
)
def test_gold_that_is_not_whole_stops(tmp_path: Path, content: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        gold_of(tmp_path / "g.csv", content)


@pytest.mark.parametrize("line", ["[]", '{"id": 1}', '{"id": 1, "label": null}', '{"id": 1, "id": 1}'])
def test_gold_lines_that_are_not_whole_stop(tmp_path: Path, line: str) -> None:
    with pytest.raises(ConfigurationError, match=r"Line 1 of g\.jsonl"):
        gold_of(tmp_path / "g.jsonl", line + "\n")


@pytest.mark.parametrize("spec", ["file.csv", "#label", "file.csv#"])
def test_a_column_has_to_be_named(spec: str) -> None:
    with pytest.raises(ConfigurationError, match="FILE#COLUMN"):
        read_gold(spec)


def test_a_missing_column_is_told_with_those_that_are_there(tmp_path: Path) -> None:
    for name, content in (("g.csv", "id,gold\n1,x\n"), ("g.jsonl", '{"id": 1, "gold": "x"}\n')):
        file = tmp_path / name
        file.write_text(content)
        with pytest.raises(ConfigurationError, match="no column nope; its columns are id, gold"):
            read_gold(f"{file}#nope")
        for spec in (f"{file}", f"{file}#"):
            with pytest.raises(ConfigurationError, match="FILE#COLUMN; its columns are id, gold"):
                read_gold(spec)


def test_json_lines_read_as_csv_are_recognised(tmp_path: Path) -> None:
    file = tmp_path / "g.txt"
    file.write_text('{"id": 1, "gold": "x"}\n')
    with pytest.raises(ConfigurationError, match="looks like JSONL"):
        read_gold(f"{file}#gold", format="csv")


@needs_shared
def test_real_gold() -> None:
    file = SHARED / "tickets" / "ecommerce_llm_split_1.csv"
    gold = read_gold(f"{file}#category")
    with file.open(encoding="utf-8", newline="") as stream:
        assert list(gold.values()) == [row["category"] for row in csv.DictReader(stream)]
    assert next(iter(gold)) == "ecommerce_llm_split_1.csv:1"
