"""What a message must be to count as a record, and what is kept of one that is none."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.adapters.kafka.messages import MessageReader, Received
from assay.domain.identity import InputRecord, MalformedInput, SourcePosition
from assay.domain.record_mapping import SourceRules
from assay.domain.records import Referenced

POSITION = SourcePosition(3, 7, None, 5)
BOUND = 200
READER = MessageReader(SourceRules("tickets", {}, BOUND))
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
RECORD = b'{"record_id": "a", "text": "t"}'


def malformed(value: bytes | None, reader: MessageReader = READER) -> MalformedInput:
    item = reader.item(Received(POSITION, value))
    assert isinstance(item, MalformedInput)
    return item


def record(value: bytes, *headers: tuple[str, bytes | str | None]) -> InputRecord:
    item = READER.item(Received(POSITION, value, headers))
    assert isinstance(item, InputRecord)
    return item


@pytest.mark.parametrize(
    ("value", "error_type", "path"),
    [
        (None, "tombstone", ""),
        (b"", "not_json", ""),
        (b"\xff", "not_utf8", ""),
        (b"{", "not_json", ""),
        (b'{"record_id": "a", "record_id": "b", "text": "t"}', "not_json", ""),
        (b'{"record_id": "a", "text": "t", "x": NaN}', "not_json", ""),
        (b'"text"', "not_an_object", ""),
        (b'{"text": "t"}', "missing_field", "/record_id"),
        (b'{"record_id": null, "text": "t"}', "bad_identity", "/record_id"),
        (b'{"record_id": true, "text": "t"}', "bad_identity", "/record_id"),
        (b'{"record_id": "a"}', "missing_field", "/text"),
        (b'{"record_id": "a", "text": 1}', "wrong_type", "/text"),
        (b'{"record_id": "a", "text": "\\u0000"}', "unstorable_text", "/text"),
        (b'{"record_id": "a", "text": "t", "input_version": 0}', "bad_identity", "/input_version"),
        (b'{"record_id": "a", "text": "t", "customer": []}', "wrong_type", "/customer"),
    ],
)
def test_what_is_no_record_is_kept_with_its_reason(value: bytes | None, error_type: str, path: str) -> None:
    found = malformed(value)
    assert (found.error_type, found.path) == (error_type, path)
    assert (found.raw, found.position, found.source) == (value or b"", POSITION, "tickets")


def test_the_bound_counts_bytes() -> None:
    head, tail = b'{"record_id": "a", "text": "', b'"}'
    fits = head + b"x" * (BOUND - len(head) - len(tail)) + tail
    assert record(fits).position == POSITION
    found = malformed(fits[: -len(tail)] + b"x" + tail)
    assert (found.error_type, len(found.raw)) == ("oversized", BOUND + 1)
    # Looked at first: what is too large is not even parsed.
    assert malformed(b"\xff" * (BOUND + 1)).error_type == "oversized"


def test_a_message_goes_by_no_number_of_its_own() -> None:
    """A row of a file may: a message that is sent again stands at another offset."""
    reader = MessageReader(SourceRules("tickets", {"record_id": "key"}, BOUND))
    assert malformed(b'{"record_id": "a", "text": "t"}', reader).path == "/record_id"
    item = reader.item(Received(POSITION, b'{"key": 12, "text": "t"}'))
    assert isinstance(item, InputRecord)
    assert item.record_id == "12"


def test_nested_fields_by_pointer() -> None:
    reader = MessageReader(SourceRules("tickets", {"text": "/ticket/body", "customer": "/who"}, BOUND))
    item = reader.item(Received(POSITION, b'{"id": "a", "ticket": {"body": "t"}, "who": "c"}'))
    assert isinstance(item, InputRecord)
    assert (item.text, item.attributes.customer) == ("t", "c")


def test_a_document_only_where_documents_are_read() -> None:
    value = b'{"record_id": "a", "document_ref": "a.txt"}'
    assert malformed(value).path == "/text"
    rules = SourceRules("tickets", {"document_ref": "document_ref"}, BOUND, documents=True)
    item = MessageReader(rules).item(Received(POSITION, value))
    assert isinstance(item, Referenced)
    assert item.document_ref == "a.txt"


@pytest.mark.parametrize("name", ["correlation_id", "correlation-id", "x-correlation-id", "X-Correlation-Id"])
def test_names_of_headers(name: str) -> None:
    assert record(RECORD, (name, b"c-1")).attributes.correlation_id == "c-1"
    assert record(RECORD, (name, "c-1")).attributes.correlation_id == "c-1"


def test_the_first_usable_name_counts_and_the_record_goes_before() -> None:
    both = (("traceparent", TRACE.encode()), ("traceparent", b"00-" + b"1" * 32 + b"-" + b"2" * 16 + b"-01"))
    assert record(RECORD, *both).attributes.trace_parent == TRACE
    own = json.dumps({"record_id": "a", "text": "t", "correlation_id": "own"}).encode()
    assert record(own, ("correlation_id", b"other")).attributes.correlation_id == "own"
    null = json.dumps({"record_id": "a", "text": "t", "correlation_id": None}).encode()
    assert record(null, ("correlation_id", b"other")).attributes.correlation_id == "other"


@pytest.mark.parametrize("value", [None, b"", b" ", b"\xff", b"\x00", b"x" * 513, "\x00"])
def test_unusable_headers_are_left_out(value: bytes | str | None) -> None:
    assert record(RECORD, ("correlation_id", value), ("traceparent", value)).attributes == (
        record(RECORD).attributes
    )


@given(value=st.one_of(st.none(), st.binary(max_size=BOUND + 10)), header=st.one_of(st.none(), st.binary()))
def test_nothing_that_comes_raises(value: bytes | None, header: bytes | None) -> None:
    """Any bytes are a record or malformed input, at the place where they stand."""
    headers = (("traceparent", header), ("correlation-id", header), ("other", header))
    item = READER.item(Received(POSITION, value, headers))
    assert item.position == POSITION
    assert isinstance(item, InputRecord) or item.raw == (value or b"")
