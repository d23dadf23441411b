"""Whole runs: several files, compressed ones, Parquet, documents, a followed file; labels as Parquet."""

from __future__ import annotations

import gzip
import json
import os
import signal
import time
from datetime import date
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from labelling_project import PATIENCE_SECONDS, Project, ended

pa = import_module("pyarrow")
pq = import_module("pyarrow.parquet")

PIPELINE = """
from datetime import date
from decimal import Decimal
from typing import Annotated, Literal
from pydantic import Field
from assay import Contract, Pipeline, Prompt, Route

class Row(Contract):
    category: Literal["billing", "other"]
    amount: Annotated[Decimal, Field(multiple_of=Decimal("0.01"))]
    due: date | None
    items: int
    urgent: bool
    tags: list[Literal["a", "b"]]

pipeline = Pipeline(name="rows", contract=Row, model="recorded:answers.jsonl#answer", prompt=Prompt("Label."),
                    route=Route())
"""
ANSWER = {
    "category": "billing", "amount": 12.5, "due": "2026-01-31", "items": 3, "urgent": True,
    "tags": ["a", "b"],
}  # fmt: skip
ROWS = 30


@pytest.fixture
def project(tmp_path: Path, db_url: str) -> Project:
    made = Project(tmp_path, db_url)
    made.write("rows.py", PIPELINE)
    answers = [{"id": f"r{n}", "answer": json.dumps(ANSWER)} for n in range(ROWS)]
    made.write_records("answers.jsonl", answers)
    return made


def record(number: int, **fields: str) -> dict[str, str]:
    return {"id": f"r{number}", "text": f"text {number}"} | fields


def lines(first: int, last: int) -> bytes:
    return b"".join(json.dumps(record(n)).encode() + b"\n" for n in range(first, last))


def run(project: Project, *options: str) -> dict[str, Any]:
    told = json.loads(project.done("run", "rows.py", *options, "--json"))
    assert isinstance(told, dict)
    return told


def inputs(project: Project) -> list[tuple[Any, ...]]:
    return project.rows(
        "SELECT i.record_id, s.name, i.source_offset, i.document_ref FROM assay.inputs i "
        "JOIN assay.sources s USING (source_id) ORDER BY i.source_id, i.source_offset"
    )


def test_files_of_all_kinds_in_one_run(project: Project) -> None:
    folder = project.folder / "data"
    folder.mkdir()
    (folder / "2026-01.jsonl.gz").write_bytes(gzip.compress(lines(0, 5)) + gzip.compress(lines(5, 9)))
    (folder / "2026-02.jsonl.gz").write_bytes(gzip.compress(lines(9, 12) + b"broken\n"))
    pq.write_table(pa.Table.from_pylist([record(n) for n in range(12, 20)]), folder / "more.parquet")
    options = ("--input", "data/2026-*.jsonl.gz", "--input", "data/more.parquet")
    run(project, *options)
    assert [row[:3] for row in inputs(project)] == [
        *((f"r{n}", "2026-01.jsonl.gz", n) for n in range(9)),
        *((f"r{n}", "2026-02.jsonl.gz", n - 9) for n in range(9, 12)),
        *((f"r{n}", "more.parquet", n - 12) for n in range(12, 20)),
    ]
    assert project.one("SELECT count(*) FROM assay.isolated_records") == 1
    assert project.rows("SELECT committed_offset FROM assay.source_checkpoints ORDER BY source_id") == [
        (9,), (4,), (8,),
    ]  # fmt: skip
    run(project, *options)
    assert len(inputs(project)) == 20
    assert project.broken() == []


def test_a_cut_file_is_one_error_and_a_mended_one_goes_on(project: Project) -> None:
    whole = gzip.compress(lines(0, 10)) + gzip.compress(lines(10, ROWS))
    file = project.folder / "in.jsonl.gz"
    file.write_bytes(whole[:-20])
    cut = project.finished("run", "rows.py", "--input", "in.jsonl.gz")
    assert cut.returncode == 1
    assert cut.stderr.count("in.jsonl.gz ends in the middle of its gzip data") == 1
    before = len(inputs(project))
    assert 10 <= before < ROWS
    file.write_bytes(whole)
    run(project, "--input", "in.jsonl.gz")
    assert [row[0] for row in inputs(project)] == [f"r{n}" for n in range(ROWS)]
    assert project.one("SELECT count(*) FROM assay.calls") == ROWS
    assert project.broken() == []


def test_documents_are_fetched_and_their_reference_is_kept(project: Project) -> None:
    (project.folder / "docs").mkdir()
    for number in range(3):
        (project.folder / "docs" / f"{number}.txt").write_text(f"text {number}", "utf-8")
    (project.folder / "index.csv").write_text(
        "id,path\nr0,docs/0.txt\nr1,docs/1.txt\nr9,docs/none.txt\nr8,/etc/passwd\nr2,file:docs/2.txt\n",
        "utf-8",
    )
    run(project, "--input", "index.csv", "--map", "document=path")
    assert [(row[0], row[3]) for row in inputs(project)] == [
        ("r0", "docs/0.txt"), ("r1", "docs/1.txt"), ("r2", "file:docs/2.txt"),
    ]  # fmt: skip
    assert project.rows("SELECT source_offset, error_type FROM assay.isolated_records ORDER BY 1") == [
        (2, "document_missing"), (3, "bad_reference"),
    ]  # fmt: skip
    assert project.broken() == []


def test_a_followed_file_grows_rotates_and_is_left_with_a_signal(project: Project) -> None:
    file = project.folder / "app.jsonl"
    file.write_bytes(lines(0, 3))

    def until_settled(count: int) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        query = "SELECT count(*) FROM assay.annotation_tasks WHERE state <> 'processing'"
        while project.one(query) < count:
            assert time.monotonic() < deadline, f"waited in vain for {count} annotations"

    with project.started("run", "rows.py", "--input", "app.jsonl", "--follow") as process:
        until_settled(3)
        with file.open("ab") as stream:
            stream.write(lines(3, 5) + lines(5, 6)[:9])
        until_settled(5)
        file.rename(project.folder / "app.jsonl.1")
        with (project.folder / "app.jsonl.1").open("ab") as stream:
            stream.write(lines(5, 6)[9:])
        file.write_bytes(lines(6, 8))
        until_settled(8)
        process.send_signal(signal.SIGTERM)
        code, said = ended(process)
    assert (code, "going on with the new file" in said) == (0, True)
    assert [(row[0], row[2]) for row in inputs(project)] == [
        *((f"r{n}", n) for n in range(6)), ("r6", 0), ("r7", 1),
    ]  # fmt: skip
    assert project.broken() == []
    with file.open("ab") as stream:
        stream.write(lines(8, 9))
    told = run(project, "--input", "app.jsonl")
    assert told["calls"] == 1


def test_labels_as_parquet_have_the_types_of_the_contract(project: Project) -> None:
    (project.folder / "in.jsonl").write_bytes(lines(0, ROWS))
    run(project, "--input", "in.jsonl")
    project.done("results", "rows.py", "--format", "parquet", "--output", "labels.parquet")
    table = pq.read_table(project.folder / "labels.parquet")
    assert table.num_rows == ROWS
    types = {field.name: str(field.type) for field in table.schema}
    assert {name: types[name] for name in types if name.startswith("label.")} == {
        "label.category": "string", "label.amount": "decimal128(38, 2)", "label.due": "date32[day]",
        "label.items": "int64", "label.urgent": "bool", "label.tags": "string",
    }  # fmt: skip
    row = table.to_pylist()[0]
    assert (row["label.amount"], row["label.due"], row["label.items"], row["label.urgent"]) == (
        Decimal("12.50"), date(2026, 1, 31), 3, True,
    )  # fmt: skip
    assert json.loads(row["label.tags"]) == ["a", "b"]
    assert table.schema.field("label.tags").metadata == {b"assay": b"json"}
    assert (row["record_id"], row["input_version"], row["state"]) == ("r0", 1, "review_pending")
    refused = project.finished("results", "rows.py", "--format", "parquet")
    assert (refused.returncode, "--output" in refused.stderr) == (2, True)


@pytest.mark.parametrize("name", ["labels.csv.gz", "labels.jsonl.zst"])
def test_labels_can_be_compressed(project: Project, name: str) -> None:
    (project.folder / "in.jsonl").write_bytes(lines(0, ROWS))
    run(project, "--input", "in.jsonl")
    form = name.split(".")[1]
    plain = project.done("results", "rows.py", "--format", form)
    project.done("results", "rows.py", "--format", form, "--output", name)
    packed = (project.folder / name).read_bytes()
    unpacked = gzip.decompress(packed) if name.endswith("gz") else unzstd(packed)
    assert unpacked.decode() == plain
    assert not [entry for entry in os.listdir(project.folder) if entry.endswith(".part")]


def unzstd(packed: bytes) -> bytes:
    found = import_module("zstandard").ZstdDecompressor().decompressobj().decompress(packed)
    assert isinstance(found, bytes)
    return found
