"""Answers from a file: which row, which cell, and what becomes of it."""

from __future__ import annotations

import asyncio
import csv
import itertools
import json
import os
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.adapters.providers.recorded import RecordedModel, RecordedSpec, as_response, parse_recorded
from assay.adapters.providers.recorded_jsonl import json_members
from assay.adapters.providers.recorded_rows import Cell
from assay.domain.failures import ConfigurationError, ConfigurationProviderError, RequestProviderError
from assay.ports import ModelRequest, ModelResponse, Usage

SHARED = Path(
    os.environ.get("ASSAY_SHARED_DATA", Path(__file__).resolve().parents[2].parent / "shared" / "data")
)
needs_shared = pytest.mark.skipif(
    not SHARED.is_dir(), reason="real inputs are not here: set ASSAY_SHARED_DATA"
)

CSV = (
    b"\xef\xbb\xbfticket,text,answer,raw\r\n"
    b't-1,"two\r\nlines, one row",billing,"{""category"": ""billing""}"\r\n'
    b"\r\n"
    b"t-2,short,technical,[1]\r\n"
    b"t-3,no answer,,\r\n"
    b"t-4,\xff,\xff\xfe,{\r\n"
    b"t-5,too,many,cells,here\r\n"
    b't-6,"a quote" too many,no,no\r\n'
    b"t-7,fine,other,{}\r\n"
    b"t-7a,bare,carriage\rreturn,no\r\n"
    b't-8,"stops'
)


def request(record_id: str) -> ModelRequest:
    return ModelRequest(record_id, 1, (), None, "S", {}, "k")


def answers(
    path: Path, column: str, *ids: str, id_column: str | None = None, label: str | None = None
) -> list[ModelResponse]:
    async def ask() -> list[ModelResponse]:
        model = RecordedModel(path, column, id_column=id_column, label_field=label)
        try:
            return [await model.complete(request(record_id)) for record_id in ids]
        finally:
            await model.aclose()

    return asyncio.run(ask())


def contents(
    path: Path, column: str, *ids: str, id_column: str | None = None, label: str | None = None
) -> list[str | bytes]:
    return [response.content for response in answers(path, column, *ids, id_column=id_column, label=label)]


@pytest.fixture
def csv_file(tmp_path: Path) -> Path:
    path = tmp_path / "answers.csv"
    path.write_bytes(CSV)
    return path


def test_rows_are_found_by_file_name_and_number(csv_file: Path) -> None:
    ids = [f"answers.csv:{n}" for n in range(1, 10)]
    assert contents(csv_file, "answer", *ids) == [
        "billing",
        "technical",
        "",
        b"\xff\xfe",
        "",
        "",
        "other",
        "",
        "",
    ]


def test_bare_labels_are_wrapped_and_nothing_else_is(csv_file: Path) -> None:
    ids = [f"answers.csv:{n}" for n in range(1, 5)]
    assert contents(csv_file, "answer", *ids, label="category") == [
        '{"category": "billing"}',
        '{"category": "technical"}',
        "",
        b"\xff\xfe",
    ]
    assert contents(csv_file, "raw", *ids, label="category") == ['{"category": "billing"}', "[1]", "", "{"]


@pytest.mark.parametrize(
    "record_id",
    ["answers.csv:0", "answers.csv:10", "answers.csv:01", "answers.csv:-1", "answers.csv:+1",
     "answers.csv: 1", "answers.csv:1 ", "answers.csv:١", "answers.csv:", "other.csv:1", "t-1", "",
     "answers.csv:" + "9" * 5000],
)  # fmt: skip
def test_a_record_that_is_not_there_has_no_answer(record_id: str, csv_file: Path) -> None:
    assert contents(csv_file, "answer", record_id, label="category") == [""]


def test_an_id_column_by_name_is_the_only_key(csv_file: Path) -> None:
    found = contents(csv_file, "answer", "t-2", "t-1", "answers.csv:1", id_column="ticket")
    assert found == ["technical", "billing", ""]


@pytest.mark.parametrize("name", ["record_id", "id"])
def test_a_usual_id_column_serves_where_no_row_key_matches(name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"{name},answer\nx,one\ny,two\n")
    assert contents(path, "answer", "y", "a.csv:1", "z") == ["two", "one", ""]


def test_nothing_is_paid(csv_file: Path) -> None:
    (response,) = answers(csv_file, "answer", "answers.csv:1")
    assert (response.cost, response.usage, response.truncated) == (Decimal(0), Usage(), False)
    assert response.model == "recorded:answers.csv#answer"


def test_an_id_twice_is_refused_not_guessed(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,answer\nsecret-x,one\ny,two\nsecret-x,three\n")
    with pytest.raises(ConfigurationError, match=r"Rows 1 and 3 of a\.csv have the same 'id'") as caught:
        RecordedModel(path, "answer", id_column="id")
    assert "secret-x" not in str(caught.value)
    assert contents(path, "answer", "a.csv:3", "y") == ["three", "two"]
    with pytest.raises(RequestProviderError, match="recorded_answer_ambiguous"):
        contents(path, "answer", "secret-x")


def test_ids_whose_hashes_collide_are_told_apart(tmp_path: Path) -> None:
    """The index keeps 36 bits of an id's hash: of a few hundred thousand ids two share them."""
    seen: dict[int, str] = {}
    numbers = itertools.count()
    while (known := seen.setdefault(hash(name := f"r{next(numbers)}") & (2**36 - 1), name)) == name:
        pass
    path = tmp_path / "a.csv"
    path.write_text(f"id,answer\n{known},one\n")
    assert contents(path, "answer", name, known) == ["", "one"]


def test_a_file_that_changes_gives_no_answers(csv_file: Path) -> None:
    model = RecordedModel(csv_file, "answer")
    csv_file.write_bytes(CSV.replace(b"billing", b"swapped, "))
    with pytest.raises(ConfigurationProviderError):
        asyncio.run(model.complete(request("answers.csv:1")))
    asyncio.run(model.aclose())


def test_jsonl_values_keep_their_text(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    lines = [
        '\ufeff{"id": "x", "answer": "billing"}',
        '{"id": 7, "answer": {"b": 1,  "a": 2, "a": 1e400}}',
        "",
        '{"answer" : null , "id":"n"}\r',
        '{"id": "s", "answer": 5}',
        "not json",
        '["answer"]',
        '{"id": "long", "answer": ' + "9" * 6000 + "}",
        '{"id": "deep", "answer": ' + "[" * 100_000,
        '{"id": "last", "answer": "\\ud800"}',
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    ids = [f"a.jsonl:{n}" for n in range(1, 11)]
    assert contents(path, "answer", *ids, label="c") == [
        '{"c": "billing"}',
        '{"b": 1,  "a": 2, "a": 1e400}',
        "",
        "",
        '{"c": 5}',
        "",
        "",
        '{"c": ' + "9" * 6000 + "}",
        "",
        '{"c": "\ud800"}',
    ]
    assert contents(path, "answer", "7", "last", id_column="id") == [
        '{"b": 1,  "a": 2, "a": 1e400}',
        "\ud800",
    ]


@pytest.mark.parametrize(
    ("name", "text", "columns", "said"),
    [
        ("a.csv", "one,two\n1,2\n", ("three", None), "(one, two)"),
        ("a.csv", "one,two\n1,2\n", ("one", "three"), "(one, two)"),
        ("a.csv", "", ("one", None), "(none)"),
        ("a.csv", "one,one\n1,2\n", ("one", None), "more than one column"),
        ("a.csv", "one\rtwo\r", ("one", None), "line ends"),
        ("a.jsonl", '{"one": 1}\n{"two": 2}\n', ("three", None), "(one, two)"),
        ("a.jsonl", '{"one": 1}\n', ("one", "id"), "(one)"),
        ("a.parquet", "PAR1", ("one", None), "neither .csv nor .jsonl"),
        ("missing.csv", None, ("one", None), "cannot be opened"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_in_one_sentence(
    name: str, text: str | None, columns: tuple[str, str | None], said: str, tmp_path: Path
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text, newline="")
    with pytest.raises(ConfigurationError) as caught:
        RecordedModel(tmp_path / name, columns[0], id_column=columns[1])
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "parsed"),
    [
        ("a.csv#col", RecordedSpec("a.csv", "col", None)),
        ("d/a.csv#col?id=ticket", RecordedSpec("d/a.csv", "col", "ticket")),
        ("a.csv?id=ticket#col", RecordedSpec("a.csv", "col", "ticket")),
        ("a.csv#claude_3.5 #2", RecordedSpec("a.csv", "claude_3.5 #2", None)),
    ],
)
def test_a_spec_names_file_column_and_id(spec: str, parsed: RecordedSpec) -> None:
    assert parse_recorded(spec) == parsed


@pytest.mark.parametrize("spec", ["a.csv", "#col", "a.csv#", "a.csv#col?id=", "?id=x#col", "a.csv?id=#col"])
def test_a_spec_that_names_too_little_is_refused(spec: str) -> None:
    with pytest.raises(ConfigurationError, match="recorded:FILE"):
        parse_recorded(spec)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_label_survives_wrapping_exactly(label: str) -> None:
    response = as_response(Cell(label), "label")
    assert isinstance(response, str)
    if not label.strip() or label.lstrip()[0] in "{[":
        assert response == label
    else:
        assert json.loads(response) == {"label": label}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), json_values, max_size=5), st.sampled_from([None, 1]))
def test_members_of_a_line_are_what_json_says(value: dict[str, object], indent: int | None) -> None:
    line = json.dumps(value, separators=None if indent is None else (" ,\t", " : ")).encode()
    members = json_members(line)
    assert list(members) == list(value)
    assert {name: json.loads(member.raw) for name, member in members.items()} == value


@given(st.binary() | st.text('{}[]":,1e \\t').map(str.encode))
def test_any_line_can_be_read(line: bytes) -> None:
    members = json_members(line)
    try:
        value = json.loads(line)
    except ValueError:
        assert members == {}
    else:
        assert list(members) == (list(value) if isinstance(value, dict) else [])


@needs_shared
@pytest.mark.parametrize("split", [1, 2])
@pytest.mark.parametrize("model", ["gpt_4o", "claude_3.5_sonnet", "gpt_4o_mini", "claude_3.5_haiku"])
def test_the_answers_of_real_models_come_out_as_they_are_in_the_file(split: int, model: str) -> None:
    path = SHARED / "tickets" / f"ecommerce_llm_split_{split}.csv"
    column = f"{model}_prediction"
    with path.open(encoding="utf-8", newline="") as lines:
        expected = [row[column] for row in csv.DictReader(lines)]
    ids = [f"{path.name}:{n}" for n in range(1, len(expected) + 2)]
    found = contents(path, column, *ids, label="category")
    assert found.pop() == "", "there is no row after the last"
    assert len(found) == 620
    assert [json.loads(content)["category"] for content in found] == expected
