"""JSONL: every kind of line becomes a record or malformed input, none is lost."""

from __future__ import annotations

import json
import os
from base64 import b64decode
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from source_items import items_of

from assay.adapters.files.source import open_source
from assay.domain.identity import Attributes, InputRecord, MalformedInput, SourcePosition

SHARED = Path(
    os.environ.get("ASSAY_SHARED_DATA", Path(__file__).resolve().parents[2].parent / "shared" / "data")
)
needs_shared = pytest.mark.skipif(
    not SHARED.is_dir(), reason="real inputs are not here: set ASSAY_SHARED_DATA"
)


GOOD = b'{"text": "good"}'


@pytest.mark.parametrize(
    ("line", "error_type", "path"),
    [
        (b'{"text": "\xff"}', "not_utf8", ""),
        (b"\xff\xfe{\x00}\x00", "not_utf8", ""),
        (b"text", "not_json", ""),
        (b'{"text": "a"', "not_json", ""),
        (b'{"text": "a"} {"text": "b"}', "not_json", ""),
        (b'{"text": "a", "text": "a"}', "not_json", ""),
        (b'{"text": "a", "x": {"k": 1, "k": 2}}', "not_json", ""),
        (b'{"text": "a", "x": NaN}', "not_json", ""),
        (b'{"text": "a", "x": -Infinity}', "not_json", ""),
        (b'{"text": "a\tb"}', "not_json", ""),
        (b"[" * 100_000, "not_json", ""),
        (b'{"text": ' * 100_000, "not_json", ""),
        (b'["text"]', "not_an_object", ""),
        (b'"text"', "not_an_object", ""),
        (b"null", "not_an_object", ""),
        (b"{}", "missing_field", "/text"),
        (b'{"Text": "a"}', "missing_field", "/text"),
        (b'{"text": null}', "wrong_type", "/text"),
        (b'{"text": 5}', "wrong_type", "/text"),
        (b'{"text": ["a"]}', "wrong_type", "/text"),
        (b'{"text": ""}', "blank_text", "/text"),
        (b'{"text": " \\n\\u200b\\u3164"}', "blank_text", "/text"),
        (b'{"text": "a\\u0000"}', "unstorable_text", "/text"),
        (b'{"text": "a\\ud800"}', "unstorable_text", "/text"),
        (b'{"text": "\\udc00\\ud800"}', "unstorable_text", "/text"),
        (b'{"text": "a", "record_id": ""}', "bad_identity", "/record_id"),
        (b'{"text": "a", "record_id": " "}', "bad_identity", "/record_id"),
        (b'{"text": "a", "record_id": null}', "bad_identity", "/record_id"),
        (b'{"text": "a", "record_id": true}', "bad_identity", "/record_id"),
        (b'{"text": "a", "record_id": 1.0}', "bad_identity", "/record_id"),
        (b'{"text": "a", "record_id": "a\\u0000"}', "bad_identity", "/record_id"),
        (b'{"text": "a", "record_id": "\\ud800"}', "bad_identity", "/record_id"),
        (b'{"text": "a", "record_id": "' + b"x" * 513 + b'"}', "bad_identity", "/record_id"),
        (b'{"text": "a", "record_id": ' + b"9" * 5_000 + b"}", "bad_identity", "/record_id"),
        (b'{"text": "a", "input_version": 0}', "bad_identity", "/input_version"),
        (b'{"text": "a", "input_version": true}', "bad_identity", "/input_version"),
        (b'{"text": "a", "input_version": 1.0}', "bad_identity", "/input_version"),
        (b'{"text": "a", "input_version": "1"}', "bad_identity", "/input_version"),
        (b'{"text": "a", "input_version": null}', "bad_identity", "/input_version"),
        (b'{"text": "a", "input_version": 2147483648}', "bad_identity", "/input_version"),
        (b'{"text": "a", "customer": ["x"]}', "wrong_type", "/customer"),
        (b'{"text": "a", "customer": 1.5}', "wrong_type", "/customer"),
        (b'{"text": "a", "customer": "\\ud800"}', "unstorable_text", "/customer"),
        (b'{"text": "a", "customer": "' + b"x" * 513 + b'"}', "oversized", "/customer"),
        (b'{"text": "' + b"x" * (1 << 20) + b'"}', "oversized", ""),
    ],
)
async def test_a_bad_line_is_isolated_with_its_place_and_bytes(
    tmp_path: Path, line: bytes, error_type: str, path: str
) -> None:
    before, bad, after = await items_of(tmp_path / "in.jsonl", GOOD + b"\n" + line + b"\n" + GOOD)
    assert isinstance(before, InputRecord)
    assert isinstance(after, InputRecord)
    assert isinstance(bad, MalformedInput)
    assert (bad.error_type, bad.path) == (error_type, path)
    assert bad.position == SourcePosition(0, 1, 2)
    assert bad.source == "in.jsonl"
    assert bad.raw == line[: 1 << 20]


async def test_fields_and_attributes_are_taken_by_their_own_names(tmp_path: Path) -> None:
    line = {
        "text": "größer 😀",
        "record_id": "T-1",
        "input_version": 3,
        "customer": "acme",
        "language": None,
        "priority": 2,
        "source": "elsewhere",
    }
    (item,) = await items_of(tmp_path / "in.jsonl", json.dumps(line).encode())
    assert item == InputRecord(
        "T-1",
        3,
        "größer 😀",
        "in.jsonl",
        SourcePosition(0, 0, 1),
        Attributes(customer="acme", source="elsewhere"),
    )


async def test_a_mapping_renames_nests_and_leaves_out(tmp_path: Path) -> None:
    line = b'{"title": "a", "meta": {"key/1": 77, "v": 2}, "language": {"code": "en"}}'
    (item,) = await items_of(
        tmp_path / "in.jsonl",
        line,
        {"text": "title", "record_id": "/meta/key~11", "input_version": "/meta/v", "language": ""},
    )
    assert isinstance(item, InputRecord)
    assert (item.record_id, item.input_version, item.text) == ("77", 2, "a")


async def test_ids_come_from_record_id_then_id_then_the_line(tmp_path: Path) -> None:
    content = b'\n{"text": "a", "id": 5, "record_id": "r"}\n \t\r\n{"text": "a", "id": 5}\n{"text": "a"}\n'
    found = await items_of(tmp_path / "in.jsonl", content)
    keys = [(item.record_id, item.position.line) for item in found if isinstance(item, InputRecord)]
    assert keys == [("r", 2), ("5", 4), ("in.jsonl:5", 5)]


async def test_a_mapped_id_that_is_missing_is_no_row_number(tmp_path: Path) -> None:
    (item,) = await items_of(tmp_path / "in.jsonl", b'{"text": "a", "id": 1}', {"record_id": "key"})
    assert isinstance(item, MalformedInput)
    assert (item.error_type, item.path) == ("bad_identity", "/record_id")


async def test_byte_order_mark_crlf_and_a_last_line_without_end_are_ordinary(tmp_path: Path) -> None:
    content = b'\xef\xbb\xbf{"text": "a"}\r\n{"text": "b"}\r\n\r\n{"text": "c"}'
    found = await items_of(tmp_path / "in.jsonl", content)
    assert [item.text for item in found if isinstance(item, InputRecord)] == ["a", "b", "c"]


async def test_a_huge_integer_elsewhere_in_the_line_is_ordinary(tmp_path: Path) -> None:
    (item,) = await items_of(tmp_path / "in.jsonl", b'{"text": "a", "x": ' + b"9" * 5_000 + b"}")
    assert isinstance(item, InputRecord)


async def test_a_line_at_the_bound_is_read_and_one_byte_more_is_not(tmp_path: Path) -> None:
    line = b'{"text": "12345678"}'
    at = await items_of(tmp_path / "at.jsonl", line + b"\n" + line, max_record_bytes=len(line))
    assert all(isinstance(item, InputRecord) for item in at)
    over = await items_of(tmp_path / "over.jsonl", line + b" \n" + line + b"\n", max_record_bytes=len(line))
    assert [type(item) for item in over] == [MalformedInput, InputRecord]


@given(st.lists(st.binary(max_size=30).map(lambda raw: raw.replace(b"\n", b"")), max_size=20))
async def test_any_bytes_give_one_item_per_line_that_is_not_blank(lines: list[bytes]) -> None:
    from tempfile import TemporaryDirectory

    content = [GOOD, *lines]
    with TemporaryDirectory() as folder:
        found = await items_of(Path(folder) / "in.jsonl", b"\n".join(content))
    assert len(found) == sum(1 for line in content if line.strip(b" \t\r"))


def suite_cases() -> list[tuple[str, bytes]]:
    """Hostile JSON texts by name; those with a line break cannot stand on one line."""
    file = SHARED / "json" / "JSONTestSuite.jsonl"
    cases = [json.loads(line) for line in file.read_bytes().split(b"\n") if line]
    raws: list[tuple[str, bytes]] = [
        (case["name"], b64decode(case["raw_b64"]) if case["raw_text"] is None else case["raw_text"].encode())
        for case in cases
        if case["raw_text"] is not None or case["raw_b64"] is not None  # the two largest hold neither
    ]
    return [(name, raw) for name, raw in raws if b"\n" not in raw and b"\r" not in raw]


@needs_shared
async def test_hostile_json_in_a_line_is_read_strictly(tmp_path: Path) -> None:
    cases = suite_cases()
    assert len(cases) > 300
    content = b"\n".join(b'{"text": "a", "x": ' + raw + b"}" for _, raw in cases)
    found = await items_of(tmp_path / "in.jsonl", content)
    for (name, _), item in zip(cases, found, strict=True):
        if name.startswith("n_"):
            assert isinstance(item, MalformedInput), name
        elif name.startswith("y_"):
            assert isinstance(item, InputRecord) == ("duplicated_key" not in name), name


@needs_shared
@pytest.mark.parametrize(
    ("file", "rows", "mapping"),
    [
        ("tickets/banking77_train_sample.jsonl", 2_000, {}),
        ("receipts/sroie_150.jsonl", 150, {"text": "ocr_text"}),
        ("nasty/prompt_injections_250.jsonl", 250, {}),
    ],
)
async def test_real_files_are_read_whole(file: str, rows: int, mapping: dict[str, str]) -> None:
    source = await open_source(str(SHARED / file), mapping=mapping)
    found = [item async for batch in source.read() for item in batch]
    assert source.total == len(found) == rows
    assert all(isinstance(item, InputRecord) for item in found)
