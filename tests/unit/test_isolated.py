"""Isolated pieces read again: the rules of their source, their place, their number where they name no id."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from assay.domain.identity import Attributes, InputRecord, MalformedInput, SourcePosition
from assay.domain.isolated import CONFLICT, IsolatedPiece, Reading, as_new_version, read_again
from assay.domain.records import ParsedItem, Referenced

PLAIN = Reading(None, 1000)


def piece(
    source: str = "in.jsonl", *, kind: str = "file", mapping: dict[str, str] | None = None
) -> IsolatedPiece:
    position = SourcePosition(2, 9, 12, timestamp_ms=1_700_000_000_123)
    return IsolatedPiece(
        5, 1, kind, source, json.dumps(mapping or {}), position, "input_schema_invalid", b'{"text": 3}'
    )


def said(item: ParsedItem) -> str:
    return f"{item.error_type} {item.path}".strip() if isinstance(item, MalformedInput) else "record"


def test_a_corrected_record_keeps_its_place_and_its_time() -> None:
    raw = b'{"id": "a", "text": "t", "customer": "acme", "source": "crm"}'
    item = read_again(piece(), raw, PLAIN)
    assert isinstance(item, InputRecord)
    assert (item.record_id, item.text, item.input_version) == ("a", "t", 1)
    assert item.position == piece().position
    assert item.attributes == Attributes(customer="acme", source="crm")


def test_it_is_read_with_the_mapping_of_its_source_or_another() -> None:
    raw = b'{"id": "a", "body": "b", "text": "t"}'
    own = read_again(piece(mapping={"text": "body"}), raw, PLAIN)
    other = read_again(piece(mapping={"text": "body"}), raw, Reading({"text": "text"}, 1000))
    assert isinstance(own, InputRecord)
    assert isinstance(other, InputRecord)
    assert (own.text, other.text) == ("b", "t")


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("a.jsonl", "a.jsonl:12"),
        ("a.ndjson.gz", "a.ndjson.gz:12"),
        ("a.csv", "a.csv:10"),
        ("a.csv.zst", "a.csv.zst:10"),
        ("a.parquet", "a.parquet:10"),
        ("stdin", None),
    ],
)
def test_a_row_without_an_id_goes_by_its_number(source: str, named: str | None) -> None:
    item = read_again(piece(source), b'{"text": "t"}', PLAIN)
    if named is None:
        assert said(item) == "missing_field /record_id"
    else:
        assert isinstance(item, InputRecord)
        assert item.record_id == named


def test_where_line_and_number_agree_the_format_does_not_matter() -> None:
    same = replace(piece("stdin"), position=SourcePosition(0, 11, 12))
    item = read_again(same, b'{"text": "t"}', PLAIN)
    assert isinstance(item, InputRecord)
    assert item.record_id == "stdin:12"


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"{", "not_json"),
        (b"\xff", "not_utf8"),
        (b"[]", "not_an_object"),
        (b'{"id": "a"}', "missing_field /text"),
        (b'{"id": "a", "text": " "}', "blank_text /text"),
        (b'{"text": "t"}', "missing_field /record_id"),
        (b'{"id": "a", "text": "' + b"x" * 1000 + b'"}', "oversized"),
    ],
)
def test_what_is_still_no_record_says_why(raw: bytes, why: str) -> None:
    assert said(read_again(piece("topic", kind="kafka"), raw, PLAIN)) == why


def test_a_reference_is_followed_only_where_it_is_mapped() -> None:
    raw = b'{"id": "a", "document_ref": "x.txt"}'
    assert said(read_again(piece(), raw, PLAIN)) == "missing_field /text"
    assert isinstance(read_again(piece(mapping={"document_ref": "document_ref"}), raw, PLAIN), Referenced)
    assert isinstance(read_again(piece(), raw, Reading(None, 1000, documents=True)), Referenced)


def test_a_conflict_becomes_another_version_with_all_that_its_record_carried() -> None:
    conflict = replace(
        piece(), error_code=CONFLICT, raw="größer".encode(), record_id="a", input_version=1,
        attributes={"customer": "acme", "document_ref": "x.txt", "source_timestamp": 5}, subject_id="p1",
    )  # fmt: skip
    record = as_new_version(conflict, 7)
    assert (record.record_id, record.input_version, record.text) == ("a", 7, "größer")
    assert record.attributes == Attributes(customer="acme", subject_id="p1")
    assert (record.document_ref, record.position) == ("x.txt", conflict.position)
