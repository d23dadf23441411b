"""Every attribute of a record: taken by default or where it is mapped, checked, alike in all formats."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from parquet_files import pa, pq
from source_items import collected, text_of

from assay.adapters.files.source import open_source
from assay.domain.identity import InputRecord, is_trace_parent
from assay.domain.record_mapping import ATTRIBUTE_NAMES

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
VALUES = {name: f"some {name}" for name in ATTRIBUTE_NAMES} | {"priority": "low", "trace_parent": TRACE}
FORMATS = ("jsonl", "csv", "parquet")


def written(folder: Path, form: str, rows: list[dict[str, str]]) -> Path:
    file = folder / f"in.{form}"
    if form == "jsonl":
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    elif form == "csv":
        with file.open("w", encoding="utf-8", newline="") as stream:
            sheet = csv.DictWriter(stream, list(rows[0]))
            sheet.writeheader()
            sheet.writerows(rows)
    else:
        pq.write_table(pa.Table.from_pylist(rows), file)
    return file


@pytest.mark.parametrize("form", FORMATS)
async def test_columns_of_their_own_names_are_taken_but_for_priority(tmp_path: Path, form: str) -> None:
    file = written(tmp_path, form, [{"text": "a"} | VALUES])
    (item,) = await collected(await open_source(str(file)))
    assert isinstance(item, InputRecord)
    taken = {name: getattr(item.attributes, name) for name in ATTRIBUTE_NAMES}
    assert taken == VALUES | {"priority": None}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", ATTRIBUTE_NAMES)
async def test_each_can_be_mapped_and_left_out(tmp_path: Path, form: str, name: str) -> None:
    file = written(tmp_path, form, [{"text": "a", "column": VALUES[name], name: VALUES[name]}])
    (item,) = await collected(await open_source(str(file), mapping={name: "column"}))
    assert isinstance(item, InputRecord)
    assert getattr(item.attributes, name) == VALUES[name]
    (item,) = await collected(await open_source(str(file), mapping={name: ""}))
    assert isinstance(item, InputRecord)
    assert getattr(item.attributes, name) is None


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    ("name", "value"),
    [("priority", "high"), ("priority", "LOW"), ("trace_parent", "abc"), ("subject_id", "\u2003")],
)
async def test_a_value_that_cannot_be_meant_is_isolated(
    tmp_path: Path, form: str, name: str, value: str
) -> None:
    file = written(tmp_path, form, [{"text": "a", "column": value}])
    (item,) = await collected(await open_source(str(file), mapping={name: "column"}))
    assert text_of(item) == f"(bad_value /{name})"


@pytest.mark.parametrize("form", FORMATS)
async def test_traceparent_is_also_found_by_its_header_name(tmp_path: Path, form: str) -> None:
    file = written(tmp_path, form, [{"text": "a", "traceparent": TRACE}])
    (item,) = await collected(await open_source(str(file)))
    assert isinstance(item, InputRecord)
    assert item.attributes.trace_parent == TRACE


@pytest.mark.parametrize(
    ("value", "valid"),
    [
        (TRACE, True),
        (TRACE.replace("00-", "cc-", 1) + "-more", True),
        (TRACE + "-more", False),
        (TRACE.replace("00-", "ff-", 1), False),
        (TRACE.upper(), False),
        ("00-" + "0" * 32 + TRACE[35:], False),
        (TRACE[:36] + "0" * 16 + "-01", False),
        (TRACE + "\n", False),
        ("", False),
    ],
)
def test_what_a_traceparent_is(value: str, valid: bool) -> None:
    assert is_trace_parent(value) == valid


@given(st.text(max_size=80))
def test_no_text_breaks_the_check(value: str) -> None:
    assert is_trace_parent(value) in (True, False)
