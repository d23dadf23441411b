"""Recorded answers and the file source number the rows of one file alike, whatever the file looks like."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay.adapters.files.csv_rows import read_csv
from assay.adapters.files.jsonl import read_jsonl
from assay.adapters.providers.recorded import RecordedModel
from assay.domain.identity import InputRecord
from assay.domain.record_mapping import SourceRules
from assay.ports import ModelRequest

in_one_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])

csv_pieces = st.sampled_from(["a", "é", " ", ",", '"', "\n", "\r\n", "\r", "x,y\n", '"q"', '"""", two\n'])
jsonl_lines = st.sampled_from(
    [
        '{"text": "t", "answer": "t"}',
        '{"answer": "u", "text": "u"}\r',
        "",
        " \t",
        "nope",
        "[1]",
        '{"text": "t"}',
    ]
)


def answers(path: Path, records: list[InputRecord]) -> list[Any]:
    async def ask() -> list[Any]:
        model = RecordedModel(path, "answer")
        try:
            return [
                (await model.complete(ModelRequest(record.record_id, 1, (), None, "S", {}, "k"))).content
                for record in records
            ]
        finally:
            await model.aclose()

    return asyncio.run(ask())


@in_one_folder
@given(st.booleans(), st.lists(csv_pieces, max_size=30))
def test_csv(tmp_path: Path, marked: bool, pieces: list[str]) -> None:
    """Text and answer are read from one column by two readers: they must be the same cell."""
    path = tmp_path / "tickets.csv"
    content = ("\ufeff" if marked else "") + "other,answer\n" + "".join(pieces)
    path.write_bytes(content.encode())
    rules = SourceRules(name=path.name, mapping={"text": "answer"}, max_record_bytes=10_000)
    items = list(read_csv(io.BytesIO(path.read_bytes()), rules, 0))
    records = [item for item in items if isinstance(item, InputRecord)]
    assert answers(path, records) == [record.text for record in records]


@in_one_folder
@given(st.booleans(), st.lists(jsonl_lines, max_size=10))
def test_jsonl(tmp_path: Path, marked: bool, lines: list[str]) -> None:
    path = tmp_path / "tickets.jsonl"
    first = ("\ufeff" if marked else "") + '{"text": "first", "answer": "first"}'
    path.write_bytes("\n".join([first, *lines]).encode())
    rules = SourceRules(name=path.name, mapping={}, max_record_bytes=10_000)
    items = list(read_jsonl(io.BytesIO(path.read_bytes()), rules, 0))
    records = [item for item in items if isinstance(item, InputRecord)]
    assert len(records) >= 1
    # A line with a text and no answer gives "", any other line the answer that equals its text.
    found = answers(path, records)
    expected = [
        json.loads(line).get("answer", "")
        for line in (first.removeprefix("\ufeff"), *lines)
        if line.startswith("{")
    ]
    assert found == expected


def test_the_comparison_can_fail(tmp_path: Path) -> None:
    """The control: answers of a file whose rows moved by one are not the texts."""
    path = tmp_path / "tickets.csv"
    path.write_text("answer,other\none,1\ntwo,2\n")
    rules = SourceRules(name=path.name, mapping={"text": "answer"}, max_record_bytes=10_000)
    items = list(read_csv(io.BytesIO(path.read_bytes()), rules, 0))
    records = [item for item in items if isinstance(item, InputRecord)]
    path.write_text("answer,other\nzero,0\none,1\ntwo,2\n")
    with pytest.raises(AssertionError):
        assert answers(path, records) == [record.text for record in records]
